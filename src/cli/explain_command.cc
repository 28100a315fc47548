#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "bench/serving_client.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/explanation.h"
#include "cli/interrupt.h"
#include "cli/option_values.h"
#include "cli/prompt_flags.h"
#include "cli/server_call.h"
#include "cli/statistics.h"
#include "cli/streams.h"
#include "engine/completion.h"
#include "text/utf8.h"

namespace octavo::cli {
namespace {

constexpr char kExplainExamples[] =
    R"(Says for each block of the prompt what a KV cache holds of it: that of the running server at
--base-url, as a request with this prompt would find it now; or that of a model loaded here,
which first serves the prompts given with --warm one after the other.

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
  octavo explain --base-url http://127.0.0.1:8000 --chat -p "Say hello."
)";

class ExplainCommand : public Command {
 public:
  explicit ExplainCommand(CLI::App& app) {
    prompt_.AddTo(app);
    app.add_flag("--json", json_, "Print one JSON object");
    app.option_defaults()->group("Running server");
    const size_t num_prompt_options = app.get_options().size();
    app.add_option("--base-url", base_url_, "Ask this server; OCTAVO_API_KEY is its key")
        ->type_name("URL");
    app.add_option("--cache-salt", cache_salt_, "The salt of the requests that are meant")
        ->type_name("TEXT");
    target_.timeout_s = 60.0;
    AddNumber(app, "--timeout", target_.timeout_s, "Seconds to wait for its answer (default 60)");
    app.option_defaults()->group("Options");
    const size_t num_server_options = app.get_options().size();
    app.add_option("--warm", warm_, "A prompt to serve first; repeatable")
        ->type_name("TEXT")
        ->allow_extra_args(false);
    engine_flags_.AddTo(app);
    const std::vector<CLI::Option*> options = app.get_options();
    const auto first_of_server = options.begin() + static_cast<std::ptrdiff_t>(num_prompt_options);
    const auto first_of_engine = options.begin() + static_cast<std::ptrdiff_t>(num_server_options);
    server_options_.assign(first_of_server, first_of_engine);
    engine_options_.assign(first_of_engine, options.end());
    app.footer(kExplainExamples);
  }

  Status Run() override {
    if (Status status = prompt_.Read(); !status.ok()) return status;
    const bool asks_server = server_options_.front()->count() > 0;
    for (const CLI::Option* option : asks_server ? engine_options_ : server_options_) {
      if (option->count() == 0) continue;
      return Status::InvalidArgument(
          option->get_name() + (asks_server
                                    ? " is for a model that is loaded here, but --base-url names "
                                      "a server"
                                    : " is for a server: name it with --base-url"));
    }
    return asks_server ? ExplainAtServer() : ExplainHere();
  }

 private:
  Status ExplainAtServer() {
    const Result<bench::ServingTarget> parsed = bench::ParseBaseUrl(base_url_);
    if (!parsed.ok()) return parsed.status();
    if (!(target_.timeout_s > 0.0 && target_.timeout_s <= 1e6)) {
      return Status::InvalidArgument(fmt::format(
          "--timeout is {}, but must be above 0 and at most 1000000 seconds", target_.timeout_s));
    }
    target_.host = parsed->host;
    target_.port = parsed->port;
    target_.path = prompt_.is_chat() ? "/v1/chat/completions/explain" : "/v1/completions/explain";
    if (const auto at = text::ValidateUtf8(cache_salt_)) {
      return Status::InvalidArgument(
          fmt::format("--cache-salt: the byte at offset {} is not valid UTF-8", *at));
    }
    Result<std::string> key = ReadApiKey();
    if (!key.ok()) return key.status();
    target_.api_key = *std::move(key);
    boost::json::object body = prompt_.RequestBody();
    if (!cache_salt_.empty()) body["cache_salt"] = cache_salt_;
    const Result<boost::json::object> answer = PostJson(target_, body);
    if (!answer.ok()) return answer.status();
    const Result<PromptExplanation> explanation = ReadExplanation(*answer);
    if (!explanation.ok()) return explanation.status();
    const boost::json::value* model = answer->if_contains("model");
    return Write(model != nullptr && model->is_string() ? model->get_string().c_str() : "",
                 *explanation);
  }

  Status ExplainHere() {
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
    std::vector<kvcache::BlockExplanation> blocks = (*engine)->Explain(*tokens);
    return Write(text::ReplaceInvalidUtf8((*engine)->model_info().name),
                 MakeExplanation(**engine, *std::move(tokens), std::move(blocks)));
  }

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

  Status Write(const std::string& model, const PromptExplanation& explanation) const {
    if (!json_) return WriteStdout(ExplanationTable(explanation));
    const boost::json::object object{
        {"model", model},
        {"prompt_token_ids",
         boost::json::array(explanation.tokens.begin(), explanation.tokens.end())},
        {"explanation", ExplanationJson(explanation)}};
    return WriteStdout(boost::json::serialize(object) + "\n");
  }

  PromptFlags prompt_;
  EngineFlags engine_flags_;
  std::vector<CLI::Option*> server_options_;  // --base-url is the first
  std::vector<CLI::Option*> engine_options_;  // of a model that is loaded here
  std::vector<std::string> warm_;
  std::string base_url_;
  std::string cache_salt_;
  bench::ServingTarget target_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> AddExplainCommand(CLI::App& app) {
  return std::make_unique<ExplainCommand>(app);
}

}  // namespace octavo::cli
