#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <string>

#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/output_json.h"
#include "cli/streams.h"
#include "formats/gguf_file.h"
#include "text/tokenizer.h"

namespace octavo::cli {
namespace {

constexpr char kTokenizeExamples[] =
    R"(The text may be any bytes. The model may be a file with a vocabulary only.

Examples:
  echo -n "Hello world" | octavo tokenize
  octavo tokenize -m vocabulary.gguf --json book.txt
  echo -n "<|im_start|>user" | octavo tokenize --parse-special
)";

class TokenizeCommand : public Command {
 public:
  explicit TokenizeCommand(CLI::App& app) {
    AddModelOption(app, model_);
    app.add_option("file", file_, "The text, byte for byte; - = standard input (default)")
        ->type_name("FILE");
    app.add_flag("--parse-special", options_.parse_special,
                 "Text that spells a special token becomes that token");
    app.add_flag("--no-add-special", no_add_special_,
                 "No beginning-of-text and end-of-text tokens");
    app.add_flag("--json", json_, "Print one JSON object: token_ids and tokens");
    app.footer(kTokenizeExamples);
  }

  Status Run() override {
    Result<std::string> path = FindModel(model_);
    if (!path.ok()) return path.status();
    Result<formats::GgufFile> gguf = formats::GgufFile::Open(*path);
    if (!gguf.ok()) return gguf.status();
    Result<std::unique_ptr<text::Tokenizer>> tokenizer = text::LoadTokenizer(*gguf);
    if (!tokenizer.ok()) return tokenizer.status();
    if (!(*tokenizer)->warning().empty()) {
      WriteStderr(fmt::format("octavo tokenize: warning: {}\n", (*tokenizer)->warning()));
    }
    Result<std::string> input = ReadFileOrStdin(file_);
    if (!input.ok()) return input.status();
    options_.add_special = !no_add_special_;
    Result<std::vector<TokenId>> ids = (*tokenizer)->Encode(*input, options_);
    if (!ids.ok()) return ids.status();
    return WriteStdout(json_ ? Json(**tokenizer, *ids) : Lines(**tokenizer, *ids));
  }

 private:
  static std::string Json(const text::Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
    boost::json::array token_ids, tokens;
    token_ids.reserve(ids.size());
    tokens.reserve(ids.size());
    for (const TokenId id : ids) {
      token_ids.emplace_back(id);
      tokens.emplace_back(TokenString(tokenizer.TokenBytes(id)));
    }
    const boost::json::object object = {{"token_ids", std::move(token_ids)},
                                        {"tokens", std::move(tokens)}};
    return boost::json::serialize(object) + "\n";
  }

  // One token a line: its id, and its text in JSON's quotes.
  static std::string Lines(const text::Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
    std::string lines;
    for (const TokenId id : ids) {
      const boost::json::string token(TokenString(tokenizer.TokenBytes(id)));
      lines += fmt::format("{:>8}  {}\n", id, boost::json::serialize(token));
    }
    return lines;
  }

  std::string model_;
  std::string file_ = "-";
  text::EncodeOptions options_;
  bool no_add_special_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> AddTokenizeCommand(CLI::App& app) {
  return std::make_unique<TokenizeCommand>(app);
}

}  // namespace octavo::cli
