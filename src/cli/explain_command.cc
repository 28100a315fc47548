#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/explanation.h"
#include "cli/interrupt.h"
#include "cli/prompt_flags.h"
#include "cli/statistics.h"
#include "cli/streams.h"
#include "engine/completion.h"
#include "text/utf8.h"

namespace octavo::cli {
namespace {

constexpr char kExplainExamples[] =
    R"(Loads the model, serves the prompts given with --warm one after the other, and then says for
each block of the prompt what the KV cache holds of it:

  hit                               all that the prompt has of the block is cached
  partial                           its first tokens are, and can be copied
  miss: never seen                  nothing like it was cached, as far as is known
  miss: evicted N s ago             it was, and gave way; only full blocks are remembered
  ...: tokens differ at position N  cached content goes on with another token there
  miss: caching disabled            --no-enable-prefix-caching, or no paged cache

Examples:
  octavo explain --warm "Once upon a time there was a fox." -p "Once upon a time there was a hare."
  octavo explain --chat --warm "Say hello." -p "Say goodbye." --block-size 8
  octavo explain --warm "One prompt" --warm "Another one" --prompt-file prompt.txt --json
)";

class ExplainCommand : public Command {
 public:
  explicit ExplainCommand(CLI::App& app) {
    prompt_.AddTo(app);
    app.add_option("--warm", warm_, "A prompt to serve first; repeatable")
        ->type_name("TEXT")
        ->allow_extra_args(false);
    app.add_flag("--json", json_, "Print one JSON object");
    engine_flags_.AddTo(app);
    app.footer(kExplainExamples);
  }

  Status Run() override {
    if (Status status = prompt_.Read(); !status.ok()) return status;
    for (const std::string& text : warm_) {
      if (Status status = CheckPrompt("--warm", text); !status.ok()) return status;
    }
    Result<std::unique_ptr<Engine>> engine = engine_flags_.Load();
    if (!engine.ok()) return engine.status();
    engine_flags_.NoteShortContext("octavo explain", **engine);
    Result<std::vector<TokenId>> tokens = prompt_.Tokens(**engine);
    if (!tokens.ok()) return tokens.status();
    if (Status status = CheckTokens(**engine, *tokens); !status.ok()) return status;
    InterruptScope interrupt(**engine, InterruptScope::Then::kDefault);
    for (const std::string& text : warm_) {
      if (Status status = Warm(**engine, text); !status.ok()) return status;
      if (interrupt.TakeInterrupted()) return Status::Cancelled("");
    }
    PromptExplanation explanation;
    explanation.block_size = engine_flags_.block_size();
    explanation.blocks = (*engine)->Explain(*tokens);
    explanation.tokens = *std::move(tokens);
    return WriteStdout(json_ ? Json(**engine, explanation)
                             : ExplanationTable(**engine, explanation));
  }

 private:
  // What the engine would say to a request with this prompt.
  static Status CheckTokens(const Engine& engine, const std::vector<TokenId>& tokens) {
    engine::CompletionContext context;
    context.vocab_size = engine.model_info().vocab_size;
    context.max_model_len = engine.model_info().max_model_len;
    return engine::CheckPromptAndParams(context, tokens, SamplingParams());
  }

  // Computes a prompt, so that the cache holds it.
  Status Warm(Engine& engine, const std::string& text) const {
    Result<std::vector<TokenId>> tokens = prompt_.TokensOf(engine, text);
    if (!tokens.ok()) return tokens.status();
    SamplingParams params;
    params.temperature = 0.0f;
    params.max_tokens = 1;
    params.detokenize = false;
    const Result<RequestOutput> output = engine.Generate(*tokens, params);
    return output.ok() ? ErrorOf(*output) : output.status();
  }

  static std::string Json(const Engine& engine, const PromptExplanation& explanation) {
    const boost::json::object object{
        {"model", text::ReplaceInvalidUtf8(engine.model_info().name)},
        {"prompt_token_ids",
         boost::json::array(explanation.tokens.begin(), explanation.tokens.end())},
        {"explanation", ExplanationJson(explanation)}};
    return boost::json::serialize(object) + "\n";
  }

  PromptFlags prompt_;
  EngineFlags engine_flags_;
  std::vector<std::string> warm_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> AddExplainCommand(CLI::App& app) {
  return std::make_unique<ExplainCommand>(app);
}

}  // namespace octavo::cli
