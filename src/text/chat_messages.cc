#include "text/chat_messages.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "jinja/json_input.h"

namespace octavo::text {
namespace {

using jinja::Kind;
using jinja::Value;

bool IsList(const Value& value) {
  return value.is(Kind::kSequence) && value.sequence().type == jinja::SequenceType::kList;
}

// The dict with one entry set.
Value With(jinja::Execution& execution, const Value& dict, std::string_view key, Value value) {
  jinja::DictBuilder builder(execution);
  for (const auto& [old_key, old_value] : dict.dict().items) builder.Set(old_key, old_value);
  builder.Set(Value::Untrusted(std::string(key)), std::move(value));
  return builder.Take();
}

// One text of an array of parts.
Result<Value> JoinParts(const Value& parts, const std::string& where) {
  std::string text;
  for (size_t i = 0; i < parts.sequence().items.size(); ++i) {
    const Value& part = parts.sequence().items[i];
    if (i > 0) text += '\n';
    if (part.is_string()) {
      text += part.bytes();
      continue;
    }
    const Value* type = part.is(Kind::kDict) ? part.dict().Find("type") : nullptr;
    const Value* part_text = part.is(Kind::kDict) ? part.dict().Find("text") : nullptr;
    if (type != nullptr && type->is_string() && type->bytes() != "text") {
      return Status::InvalidArgument(
          fmt::format("{}[{}] is of type \"{}\"; this model takes parts of type \"text\"", where, i,
                      type->bytes().substr(0, 40)));
    }
    if (part_text == nullptr || !part_text->is_string()) {
      return Status::InvalidArgument(fmt::format("{}[{}] has no text", where, i));
    }
    text += part_text->bytes();
  }
  return Value::Untrusted(std::move(text));
}

// A tool call whose arguments are an object.
Result<Value> NormalizeCall(jinja::Execution& execution, const Value& call,
                            const std::string& where) {
  const Value* function = call.is(Kind::kDict) ? call.dict().Find("function") : nullptr;
  if (function == nullptr || !function->is(Kind::kDict)) {
    return Status::InvalidArgument(where + " has no function");
  }
  const Value* arguments = function->dict().Find("arguments");
  Value parsed = jinja::DictBuilder(execution).Take();
  if (arguments != nullptr && arguments->is_string() && !arguments->bytes().empty()) {
    Result<Value> object =
        jinja::ParseJson(execution, arguments->bytes(), where + ".function.arguments");
    if (!object.ok()) return object.status();
    parsed = *std::move(object);
  } else if (arguments != nullptr && jinja::Truthy(*arguments)) {
    parsed = *arguments;
  }
  return With(execution, call, "function",
              With(execution, *function, "arguments", std::move(parsed)));
}

Result<Value> NormalizeCalls(jinja::Execution& execution, const Value& message,
                             const std::string& where) {
  const Value* calls = message.dict().Find("tool_calls");
  if (calls == nullptr || !IsList(*calls)) return message;
  std::vector<Value> normalized;
  for (size_t i = 0; i < calls->sequence().items.size(); ++i) {
    Result<Value> call = NormalizeCall(execution, calls->sequence().items[i],
                                       fmt::format("{}.tool_calls[{}]", where, i));
    if (!call.ok()) return call.status();
    normalized.push_back(*std::move(call));
  }
  return With(execution, message, "tool_calls", MakeList(execution, std::move(normalized)));
}

Result<Value> NormalizeMessage(jinja::Execution& execution, const Value& message, bool keep_parts,
                               const std::string& where) {
  Result<Value> result = NormalizeCalls(execution, message, where);
  if (!result.ok()) return result;
  const Value* content = message.dict().Find("content");
  if (content == nullptr || content->is_none()) {
    return With(execution, *result, "content", Value::Untrusted(""));
  }
  if (!IsList(*content) || keep_parts) return result;
  Result<Value> text = JoinParts(*content, where + ".content");
  if (!text.ok()) return text;
  return With(execution, *result, "content", *std::move(text));
}

}  // namespace

Status CheckMessages(const Value& messages) {
  if (!IsList(messages)) return Status::InvalidArgument("messages must be an array");
  for (size_t i = 0; i < messages.sequence().items.size(); ++i) {
    if (!messages.sequence().items[i].is(Kind::kDict)) {
      return Status::InvalidArgument(fmt::format("messages[{}] must be an object", i));
    }
  }
  return Status::Ok();
}

Result<Value> NormalizeMessages(jinja::Execution& execution, const Value& messages,
                                bool keep_parts) {
  std::vector<Value> normalized;
  for (size_t i = 0; i < messages.sequence().items.size(); ++i) {
    Result<Value> message = NormalizeMessage(execution, messages.sequence().items[i], keep_parts,
                                             fmt::format("messages[{}]", i));
    if (!message.ok()) return message.status();
    normalized.push_back(*std::move(message));
  }
  Value list = MakeList(execution, std::move(normalized));
  if (execution.failed()) return execution.status();
  return list;
}

}  // namespace octavo::text
