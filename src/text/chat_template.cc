#include "text/chat_template.h"

#include <algorithm>
#include <utility>

#include "formats/gguf_file.h"
#include "jinja/json_input.h"
#include "jinja/unicode.h"
#include "text/chat_messages.h"

namespace octavo::text {
namespace {

using jinja::Value;
using Variables = std::vector<jinja::Variable>;

// Stands behind the content that is to be continued, and marks where the prompt ends; a template
// that trims contents takes the space away.
constexpr std::string_view kContinueMark = "CONTINUE_FINAL_MESSAGE_TAG ";

std::tm LocalTime() {
  const std::time_t now = std::time(nullptr);
  std::tm time = {};
  localtime_r(&now, &time);
  return time;
}

void AddToken(const char* name, const std::optional<std::string>& token, Variables* variables) {
  if (!token || !jinja::IsValidUtf8(*token)) return;
  variables->push_back({name, Value::String(jinja::TrackedString::Trusted(*token))});
}

void AddOptions(const ChatTemplateOptions& options, bool add_generation_prompt,
                Variables* variables) {
  AddToken("bos_token", options.bos_token, variables);
  AddToken("eos_token", options.eos_token, variables);
  variables->push_back({"add_generation_prompt", Value::Bool(add_generation_prompt)});
}

// Hugging Face passes these as none where they are not given.
void AddTools(Value tools, Variables* variables) {
  variables->push_back({"tools", std::move(tools)});
  variables->push_back({"documents", Value::None()});
}

Status AddKwargs(jinja::Execution& execution, std::string_view json, Variables* variables) {
  if (json.empty()) return Status::Ok();
  const Result<Value> kwargs = jinja::ParseJson(execution, json, "chat_template_kwargs");
  if (!kwargs.ok()) return kwargs.status();
  if (kwargs->is_none()) return Status::Ok();
  if (!kwargs->is(jinja::Kind::kDict)) {
    return Status::InvalidArgument("chat_template_kwargs must be an object");
  }
  for (const auto& [key, value] : kwargs->dict().items) {
    if (key.bytes() == "messages" || key.bytes() == "tools") {
      return Status::InvalidArgument("chat_template_kwargs must not have \"" +
                                     std::string(key.bytes()) + "\"");
    }
    variables->push_back({std::string(key.bytes()), value});
  }
  return Status::Ok();
}

// The messages with the mark behind the last one's content.
Result<Value> MarkLast(jinja::Execution& execution, const Value& messages) {
  const Status wrong = Status::InvalidArgument(
      "continue_final_message needs a last message whose content is a text");
  std::vector<Value> marked = messages.sequence().items;
  if (marked.empty()) return wrong;
  const Value* content = marked.back().dict().Find("content");
  if (content == nullptr || !content->is_string()) return wrong;
  jinja::DictBuilder dict(execution);
  for (const auto& [key, value] : marked.back().dict().items) dict.Set(key, value);
  dict.Set(Value::Untrusted("content"),
           Value::Untrusted(std::string(content->bytes()) + std::string(kContinueMark)));
  marked.back() = dict.Take();
  return MakeList(execution, std::move(marked));
}

// Ends the prompt where the mark stands.
Status CutAtMark(RenderedChat* chat) {
  const std::string_view mark = kContinueMark.substr(0, kContinueMark.size() - 1);
  const size_t at = chat->text.rfind(mark);
  if (at == std::string::npos) {
    return Status::InvalidArgument(
        "continue_final_message: the chat template does not show the last message");
  }
  const bool keeps_space = chat->text.compare(at, kContinueMark.size(), kContinueMark) == 0;
  size_t end = at;
  while (!keeps_space && end > 0) {
    const size_t last = jinja::CharacterBefore(chat->text, end);
    if (!jinja::IsSpace(jinja::CodePointAt(chat->text, last))) break;
    end = last;
  }
  chat->text.resize(end);
  std::erase_if(chat->trusted, [end](const auto& range) { return range.begin >= end; });
  if (!chat->trusted.empty()) chat->trusted.back().end = std::min(chat->trusted.back().end, end);
  return Status::Ok();
}

Result<RenderedChat> RenderWith(const jinja::Template& parsed, jinja::Execution& execution,
                                const Variables& variables, const ChatTemplateOptions& options) {
  const auto format_time = [&options](std::string_view format) {
    return jinja::FormatCivilTime(options.clock ? options.clock() : LocalTime(), format);
  };
  const Result<jinja::TrackedString> text = parsed.Render(execution, variables, format_time);
  if (!text.ok()) return text.status();
  return RenderedChat{std::string(text->bytes()), {text->trusted().begin(), text->trusted().end()}};
}

Result<ChatPrompt> Tokenized(const Tokenizer& tokenizer, Result<RenderedChat> chat) {
  if (!chat.ok()) return chat.status();
  Result<std::vector<TokenId>> ids = tokenizer.EncodeTrusted(chat->text, chat->trusted);
  if (!ids.ok()) return ids.status();
  return ChatPrompt{std::move(chat->text), *std::move(ids)};
}

}  // namespace

ChatTemplateOptions OptionsFor(const Tokenizer& tokenizer) {
  ChatTemplateOptions options;
  if (tokenizer.bos_id()) options.bos_token = tokenizer.TokenBytes(*tokenizer.bos_id());
  if (tokenizer.eos_id()) options.eos_token = tokenizer.TokenBytes(*tokenizer.eos_id());
  return options;
}

Result<ChatTemplate> ChatTemplate::FromGguf(const formats::GgufFile& file) {
  const Result<std::string_view> jinja = file.GetString("tokenizer.chat_template");
  if (!jinja.ok()) return jinja.status();
  Result<ChatTemplate> chat_template = FromText(*jinja);
  if (chat_template.ok()) return chat_template;
  return Status::Unimplemented(file.name() + ": " + chat_template.status().message());
}

Result<ChatTemplate> ChatTemplate::FromText(std::string_view jinja) {
  Result<jinja::Template> parsed = jinja::Template::Parse(jinja);
  if (!parsed.ok()) return parsed.status();
  return ChatTemplate(*std::move(parsed));
}

Result<RenderedChat> ChatTemplate::Render(const ChatInput& input,
                                          const ChatTemplateOptions& options) const {
  if (input.continue_final_message && input.add_generation_prompt) {
    return Status::InvalidArgument(
        "add_generation_prompt and continue_final_message exclude each other");
  }
  jinja::Execution execution{jinja::Limits{}};
  Result<Value> messages = jinja::ParseJson(execution, input.messages_json, "messages");
  if (!messages.ok()) return messages.status();
  if (Status status = CheckMessages(*messages); !status.ok()) return status;
  if (options.normalize) {
    messages = NormalizeMessages(execution, *messages, template_.iterates_content());
    if (!messages.ok()) return messages.status();
  }
  if (input.continue_final_message) messages = MarkLast(execution, *messages);
  if (!messages.ok()) return messages.status();
  Result<Value> tools = Value::None();
  if (!input.tools_json.empty()) tools = jinja::ParseJson(execution, input.tools_json, "tools");
  if (!tools.ok()) return tools.status();

  Variables variables = {{"messages", *std::move(messages)}};
  AddTools(*std::move(tools), &variables);
  AddOptions(options, input.add_generation_prompt, &variables);
  if (Status s = AddKwargs(execution, input.kwargs_json, &variables); !s.ok()) return s;
  Result<RenderedChat> chat = RenderWith(template_, execution, variables, options);
  if (!chat.ok() || !input.continue_final_message) return chat;
  if (Status status = CutAtMark(&*chat); !status.ok()) return status;
  return chat;
}

Result<RenderedChat> ChatTemplate::Render(std::span<const ChatMessage> messages,
                                          bool add_generation_prompt,
                                          const ChatTemplateOptions& options) const {
  jinja::Execution execution{jinja::Limits{}};
  std::vector<Value> list;
  for (const ChatMessage& message : messages) {
    jinja::DictBuilder dict(execution);
    dict.Set(Value::Untrusted("role"), Value::Untrusted(message.role));
    dict.Set(Value::Untrusted("content"), Value::Untrusted(message.content));
    list.push_back(dict.Take());
  }
  Variables variables = {{"messages", MakeList(execution, std::move(list))}};
  AddTools(Value::None(), &variables);
  AddOptions(options, add_generation_prompt, &variables);
  return RenderWith(template_, execution, variables, options);
}

Result<ChatPrompt> ChatTemplate::Encode(const Tokenizer& tokenizer, const ChatInput& input) const {
  return Tokenized(tokenizer, Render(input, OptionsFor(tokenizer)));
}

Result<ChatPrompt> ChatTemplate::Encode(const Tokenizer& tokenizer,
                                        std::span<const ChatMessage> messages,
                                        bool add_generation_prompt) const {
  return Tokenized(tokenizer, Render(messages, add_generation_prompt, OptionsFor(tokenizer)));
}

}  // namespace octavo::text
