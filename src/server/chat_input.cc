#include "server/chat_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/parse_options.hpp>
#include <boost/json/serialize.hpp>
#include <cstdint>
#include <string_view>
#include <utility>

#include "server/tool_calls.h"

namespace octavo::server {
namespace {

namespace json = boost::json;

constexpr size_t kMaxMessages = 4096;

bool IsText(const json::value& value) { return value.is_string(); }
bool IsArrayOfObjects(const json::value& value) {
  return value.is_array() && std::ranges::all_of(value.get_array(), &json::value::is_object);
}
bool IsContentPart(const json::value& value) { return value.is_string() || value.is_object(); }
bool IsContent(const json::value& value) {
  return IsText(value) ||
         (value.is_array() && std::ranges::all_of(value.get_array(), IsContentPart));
}

// Fields of a message that may be absent or null.
struct MessageField {
  const char* name;
  bool (*is_valid)(const json::value&);
  const char* expected;
};
constexpr MessageField kMessageFields[] = {
    {"content", IsContent, "a text or an array of texts and objects"},
    {"name", IsText, "a text"},
    {"tool_call_id", IsText, "a text"},
    {"tool_calls", IsArrayOfObjects, "an array of objects"},
};

void CheckMessage(JsonFields& fields, const json::object& message, size_t index) {
  for (const MessageField& field : kMessageFields) {
    const json::value* value = message.if_contains(field.name);
    if (value == nullptr || value->is_null() || field.is_valid(*value)) continue;
    fields.Fail("messages", fmt::format("such that {} is {}; message {} has {}", field.name,
                                        field.expected, index, ShortJson(*value)));
  }
}

void CheckMessages(JsonFields& fields, const json::array& messages) {
  if (messages.empty() || messages.size() > kMaxMessages) {
    return fields.Fail("messages", fmt::format("an array of 1 to {} messages", kMaxMessages));
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    const json::object* message = messages[i].if_object();
    const json::value* role = message == nullptr ? nullptr : message->if_contains("role");
    if (role == nullptr || !role->is_string()) {
      return fields.Fail(
          "messages",
          fmt::format("an array of objects with a role; message {} is {}", i,
                      message == nullptr ? ShortJson(messages[i]) : std::string("without one")));
    }
    CheckMessage(fields, *message, i);
  }
}

// What was serialized from a body a moment ago, whatever its depth.
json::array Reread(std::string_view text) {
  json::parse_options options;
  options.max_depth = SIZE_MAX;
  return json::parse(text, {}, options).get_array();
}

ApiResult<ChatPrompt> Render(const Engine& engine, const ChatInput& input) {
  Result<ChatPrompt> prompt = engine.ApplyChatTemplate(input);
  if (prompt.ok()) return *std::move(prompt);
  ApiError error = FromStatus(prompt.status());
  error.param = "messages";
  if (error.status == 400) error.code = "chat_template_error";
  return error;
}

}  // namespace

void ReadChatInput(JsonFields& fields, ChatInput* input) {
  const json::array* messages = fields.Array("messages");
  if (messages == nullptr) {
    fields.Fail("messages", "an array of messages");
  } else {
    CheckMessages(fields, *messages);
    input->messages_json = json::serialize(*messages);
  }
  if (const json::array* tools = fields.Array("tools"); tools != nullptr && !tools->empty()) {
    input->tools_json = json::serialize(*tools);
  }
  if (const json::object* kwargs = fields.Object("chat_template_kwargs")) {
    input->kwargs_json = json::serialize(*kwargs);
  }
  input->continue_final_message = fields.Bool("continue_final_message").value_or(false);
  input->add_generation_prompt =
      fields.Bool("add_generation_prompt").value_or(!input->continue_final_message);
  if (fields.Find("chat_template") != nullptr) {
    fields.Fail("chat_template", "absent: this server renders with the model's own template");
  }
}

ApiResult<ChatPrompt> ApplyTemplate(const Engine& engine, const ChatInput& input) {
  if (input.tools_json.empty()) return Render(engine, input);
  ChatInput without = input;
  without.tools_json.clear();
  const ApiResult<ChatPrompt> plain = Render(engine, without);
  ApiResult<ChatPrompt> with_tools = Render(engine, input);
  if (!with_tools.ok() || !plain.ok() || plain->text != with_tools->text) return with_tools;
  const json::array described =
      DescribeTools(Reread(input.messages_json), Reread(input.tools_json));
  without.messages_json = json::serialize(described);
  return Render(engine, without);
}

}  // namespace octavo::server
