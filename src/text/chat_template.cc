#include "text/chat_template.h"

#include <utility>

#include "formats/gguf_file.h"
#include "formats/gguf_value.h"

namespace octavo::text {
namespace {

constexpr std::string_view kStart = "<|im_start|>";
constexpr std::string_view kEnd = "<|im_end|>";

// A ChatML template is these parts in a row, the second and third with the default system message
// between them or both absent. A line feed inside a Jinja string may be spelled \n; it is replaced
// before the comparison.
constexpr std::string_view kLoop = "{% for message in messages %}";
constexpr std::string_view kDefaultBefore =
    "{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n";
constexpr std::string_view kDefaultAfter = "<|im_end|>\n' }}{% endif %}";
constexpr std::string_view kMessage =
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}";
constexpr std::string_view kPrompt =
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

bool Consume(std::string_view* text, std::string_view part) {
  if (!text->starts_with(part)) return false;
  text->remove_prefix(part.size());
  return true;
}

std::string WithLineFeeds(std::string_view jinja) {
  std::string text;
  for (size_t i = 0; i < jinja.size(); ++i) {
    if (jinja.substr(i, 2) == "\\n") {
      text += '\n';
      ++i;
    } else {
      text += jinja[i];
    }
  }
  return text;
}

Status Unsupported(std::string_view jinja) {
  const std::string_view first_line = jinja.substr(0, jinja.find('\n'));
  return Status::Unimplemented(
      "tokenizer.chat_template begins with " + formats::Quote(first_line) +
      "; this version knows ChatML templates, with and without a default system message");
}

// What the template makes of a conversation: markers, and whole texts between two markers.
struct Segment {
  std::string text;
  bool is_marker = false;
};

void AddTurn(std::string text, std::vector<Segment>* segments) {
  segments->push_back({std::string(kStart), true});
  segments->push_back({std::move(text), false});
  segments->push_back({std::string(kEnd), true});
  segments->push_back({"\n", false});
}

std::vector<Segment> Segments(const std::optional<std::string>& default_system,
                              std::span<const ChatMessage> messages, bool add_generation_prompt) {
  std::vector<Segment> segments;
  if (default_system.has_value() && !messages.empty() && messages[0].role != "system") {
    AddTurn("system\n" + *default_system, &segments);
  }
  for (const ChatMessage& message : messages) {
    AddTurn(message.role + "\n" + message.content, &segments);
  }
  if (add_generation_prompt) {
    segments.push_back({std::string(kStart), true});
    segments.push_back({"assistant\n", false});
  }
  return segments;
}

}  // namespace

Result<ChatTemplate> ChatTemplate::FromGguf(const formats::GgufFile& file) {
  Result<std::string_view> jinja = file.GetString("tokenizer.chat_template");
  if (!jinja.ok()) return jinja.status();
  Result<ChatTemplate> chat_template = FromText(*jinja);
  if (chat_template.ok()) return chat_template;
  return Status(chat_template.status().code(),
                file.name() + ": " + chat_template.status().message());
}

Result<ChatTemplate> ChatTemplate::FromText(std::string_view jinja) {
  const std::string normalized = WithLineFeeds(jinja);
  std::string_view rest = normalized;
  if (!Consume(&rest, kLoop)) return Unsupported(jinja);
  std::optional<std::string> default_system;
  if (Consume(&rest, kDefaultBefore)) {
    const size_t end = rest.find(kDefaultAfter);
    if (end == std::string_view::npos) return Unsupported(jinja);
    default_system = rest.substr(0, end);
    rest.remove_prefix(end + kDefaultAfter.size());
    // A quote would end Jinja's string, a backslash be an escape in it, and a marker a second turn.
    if (default_system->find_first_of("'\\\r<>") != std::string::npos) return Unsupported(jinja);
  }
  if (!Consume(&rest, kMessage) || !Consume(&rest, kPrompt)) return Unsupported(jinja);
  if (!rest.empty() && rest != "\n") return Unsupported(jinja);  // Jinja drops one last line feed
  return ChatTemplate(std::move(default_system));
}

Result<std::string> ChatTemplate::Render(std::span<const ChatMessage> messages,
                                         bool add_generation_prompt) const {
  std::string prompt;
  for (const Segment& segment : Segments(default_system_, messages, add_generation_prompt)) {
    prompt += segment.text;
  }
  return prompt;
}

Result<std::vector<TokenId>> ChatTemplate::Encode(const Tokenizer& tokenizer,
                                                  std::span<const ChatMessage> messages,
                                                  bool add_generation_prompt) const {
  std::vector<TokenId> token_ids;
  for (const Segment& segment : Segments(default_system_, messages, add_generation_prompt)) {
    if (segment.is_marker) {
      const std::optional<TokenId> id = tokenizer.FindToken(segment.text);
      if (!id.has_value() || !tokenizer.IsSpecial(*id)) {
        return Status::InvalidArgument("the chat template needs the special token " + segment.text +
                                       ", which the vocabulary lacks");
      }
      token_ids.push_back(*id);
      continue;
    }
    Result<std::vector<TokenId>> ids =
        tokenizer.Encode(segment.text, {.add_special = false, .parse_special = false});
    if (!ids.ok()) return ids.status();
    token_ids.insert(token_ids.end(), ids->begin(), ids->end());
  }
  return token_ids;
}

}  // namespace octavo::text
