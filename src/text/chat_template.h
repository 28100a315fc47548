#pragma once

// Purpose:    the prompt that a model's chat template (GGUF key tokenizer.chat_template, or a text
//             in its place) makes of a conversation; see docs/contracts/text.md.
// Ownership:  a value; keeps nothing of the GgufFile.
// Threading:  immutable; any thread.
// Invariants: the text is what Python's jinja2 makes of the same template and variables. In the
//             prompt's ids only what the template itself spells, and bos and eos, can be control
//             tokens: whatever roles, contents, tools and other inputs spell stays text.

#include <ctime>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/template.h"
#include "octavo/chat.h"
#include "octavo/status.h"
#include "octavo/types.h"
#include "text/tokenizer.h"

namespace octavo::text {

// A prompt's text, and which bytes of it the template spelled.
struct RenderedChat {
  std::string text;
  std::vector<jinja::ByteRange> trusted;
};

struct ChatTemplateOptions {
  std::optional<std::string> bos_token, eos_token;  // absent = undefined in the template
  // Make of the messages what OpenAI's API allows but templates do not expect: arguments of tool
  // calls as JSON text, content in parts, content null. Without it they are rendered as they are.
  bool normalize = true;
  std::function<std::tm()> clock;  // for strftime_now; empty = this machine's local time
};

// bos and eos as `tokenizer` spells them.
ChatTemplateOptions OptionsFor(const Tokenizer& tokenizer);

class ChatTemplate {
 public:
  // kNotFound: the file has no template. kUnimplemented: its template is wrong or uses what this
  // version does not know; the message has the line.
  static Result<ChatTemplate> FromGguf(const formats::GgufFile& file);
  // The same for a text: kInvalidArgument.
  static Result<ChatTemplate> FromText(std::string_view jinja);

  // kInvalidArgument: the input is not what ChatInput says, or the template refuses it (then the
  // message is the template's own), or fails, or reaches a limit.
  Result<RenderedChat> Render(const ChatInput& input, const ChatTemplateOptions& options) const;
  Result<RenderedChat> Render(std::span<const ChatMessage> messages, bool add_generation_prompt,
                              const ChatTemplateOptions& options) const;

  // The rendered text with its ids; no beginning-of-text token is added to what the template says.
  Result<ChatPrompt> Encode(const Tokenizer& tokenizer, const ChatInput& input) const;
  Result<ChatPrompt> Encode(const Tokenizer& tokenizer, std::span<const ChatMessage> messages,
                            bool add_generation_prompt) const;

 private:
  explicit ChatTemplate(jinja::Template parsed) : template_(std::move(parsed)) {}

  jinja::Template template_;
};

}  // namespace octavo::text
