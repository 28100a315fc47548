#include "cli/prompt_flags.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>

#include "cli/option_values.h"
#include "cli/streams.h"
#include "text/utf8.h"

namespace octavo::cli {

Status CheckPrompt(const std::string& source, const std::string& text) {
  if (text.empty()) return Status::InvalidArgument(fmt::format("{}: the prompt is empty", source));
  if (const auto at = text::ValidateUtf8(text)) {
    return Status::InvalidArgument(fmt::format("{}: byte {:#04x} at offset {} is not valid UTF-8",
                                               source, static_cast<unsigned char>(text[*at]), *at));
  }
  return Status::Ok();
}

void PromptFlags::AddTo(CLI::App& app) {
  app.option_defaults()->group("Prompt (exactly one)");
  app.add_option("-p,--prompt", text_, "The prompt itself")->type_name("TEXT");
  app.add_option("--prompt-file", file_,
                 "A file with the prompt, byte for byte; - = standard input")
      ->type_name("FILE");
  app.add_option_function<std::string>(
         "--prompt-token-ids",
         [this](const std::string& list) {
           token_ids_ = NumbersOrError("--prompt-token-ids", list);
         },
         "The prompt as token ids")
      ->type_name("ID,ID,...");
  app.option_defaults()->group("Options");
  app.add_flag("--chat", chat_,
               "Put the prompt into the model's chat template, as the user's turn");
}

Status PromptFlags::Read() {
  const int num_given =
      int{text_.has_value()} + int{file_.has_value()} + int{token_ids_.has_value()};
  if (num_given != 1) {
    return Status::InvalidArgument(
        fmt::format("{} prompts given; give exactly one of -p, --prompt-file and "
                    "--prompt-token-ids",
                    num_given));
  }
  if (token_ids_) {
    if (chat_) return Status::InvalidArgument("--chat needs a prompt of text, not of token ids");
    return Status::Ok();
  }
  std::string source = "-p";
  if (file_) {
    source = *file_ == "-" ? "standard input" : *file_;
    Result<std::string> text = ReadFileOrStdin(*file_);
    if (!text.ok()) return text.status();
    text_ = *std::move(text);
  }
  return CheckPrompt(source, *text_);
}

Result<std::vector<TokenId>> PromptFlags::Tokens(const Engine& engine) const {
  if (token_ids_) return *token_ids_;
  return TokensOf(engine, *text_);
}

Result<std::vector<TokenId>> PromptFlags::TokensOf(const Engine& engine,
                                                   const std::string& text) const {
  if (chat_) return engine.ApplyChatTemplate(std::vector<ChatMessage>{{"user", text}});
  return engine.Tokenize(text);
}

boost::json::object PromptFlags::RequestBody() const {
  if (token_ids_) return {{"prompt", boost::json::array(token_ids_->begin(), token_ids_->end())}};
  if (!chat_) return {{"prompt", *text_}};
  const boost::json::object message{{"role", "user"}, {"content", *text_}};
  return {{"messages", boost::json::array{message}}};
}

}  // namespace octavo::cli
