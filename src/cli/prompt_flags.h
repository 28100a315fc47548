#pragma once

// Purpose:    the three ways to give a prompt (-p, --prompt-file, --prompt-token-ids) and --chat.
// Ownership:  the CLI::App keeps references to this object, which must outlive the parsing.
// Threading:  the main thread.
// Invariants: text given out is not empty and well-formed UTF-8; it is never changed on the way.

#include <CLI/CLI.hpp>
#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <vector>

#include "octavo/engine.h"

namespace octavo::cli {

class PromptFlags {
 public:
  void AddTo(CLI::App& app);

  // Checks the combination of options and reads the prompt's text, before any model is loaded.
  Status Read();

  bool is_chat() const { return chat_; }

  // The prompt as tokens. REQUIRES: Read() returned OK.
  Result<std::vector<TokenId>> Tokens(const Engine& engine) const;
  // What a request to a server carries: `prompt` with the text or the ids, or with --chat
  // `messages`. REQUIRES: Read() returned OK.
  boost::json::object RequestBody() const;
  // Another text, treated as this prompt's: in the chat template with --chat.
  Result<std::vector<TokenId>> TokensOf(const Engine& engine, const std::string& text) const;

 private:
  std::optional<std::string> text_;
  std::optional<std::string> file_;
  std::optional<std::vector<TokenId>> token_ids_;
  bool chat_ = false;
};

// OK if `text` is a prompt: not empty and well-formed UTF-8. `source` names it in errors.
Status CheckPrompt(const std::string& source, const std::string& text);

}  // namespace octavo::cli
