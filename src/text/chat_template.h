#pragma once

// Purpose:    the prompt that a model's chat template (GGUF key tokenizer.chat_template) makes of
//             messages. Knows the ChatML family, with and without a default system message; see
//             docs/contracts/text.md.
// Ownership:  a value; keeps nothing of the GgufFile.
// Threading:  immutable; any thread.
// Invariants: Render gives what jinja2 with trim_blocks and lstrip_blocks gives for the same
//             template. In Encode's result the template's own markers are the only control tokens:
//             roles and contents that spell one stay text.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "octavo/engine.h"
#include "octavo/status.h"
#include "octavo/types.h"
#include "text/tokenizer.h"

namespace octavo::text {

class ChatTemplate {
 public:
  // kNotFound: the file has no template. kUnimplemented: a template outside the ChatML family; the
  // message has its first line.
  static Result<ChatTemplate> FromGguf(const formats::GgufFile& file);
  static Result<ChatTemplate> FromText(std::string_view jinja);

  Result<std::string> Render(std::span<const ChatMessage> messages,
                             bool add_generation_prompt) const;

  // The ids of Render's text; no beginning-of-text token is added. kInvalidArgument: the vocabulary
  // lacks a marker.
  Result<std::vector<TokenId>> Encode(const Tokenizer& tokenizer,
                                      std::span<const ChatMessage> messages,
                                      bool add_generation_prompt) const;

  // The system message used when the first message is not one; nothing if the template has none.
  const std::optional<std::string>& default_system() const { return default_system_; }

 private:
  explicit ChatTemplate(std::optional<std::string> default_system)
      : default_system_(std::move(default_system)) {}

  std::optional<std::string> default_system_;
};

}  // namespace octavo::text
