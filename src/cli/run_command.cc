#include <fmt/format.h>

#include <boost/json/serialize.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/explanation.h"
#include "cli/interrupt.h"
#include "cli/option_values.h"
#include "cli/output_json.h"
#include "cli/profile_flag.h"
#include "cli/prompt_flags.h"
#include "cli/sampling_flags.h"
#include "cli/statistics.h"
#include "cli/streams.h"
#include "engine/beam_search.h"

namespace octavo::cli {
namespace {

constexpr char kRunExamples[] = R"(Examples:
  octavo run -p "The capital of France is" --temperature 0
  octavo run --chat -p "Write a haiku about paper." --max-tokens 100 --seed 7
  octavo run --prompt-file - --json < prompt.txt
  octavo run --prompt-token-ids 504,3575,282 --logprobs 5 --json
  octavo run -p "My favourite colour is" -n 3 --seed 1
  octavo run -p "The capital of France is" --beam-width 4
)";

class RunCommand : public Command {
 public:
  explicit RunCommand(CLI::App& app) {
    prompt_.AddTo(app);
    AddNumber(app, "--logprobs", logprobs_,
              "Report the N most likely tokens at each output token; -1 = all (with --json)");
    AddNumber(app, "--prompt-logprobs", prompt_logprobs_,
              "The same for each token of the prompt (with --json)");
    app.add_flag("--explain", explain_, "Show what the cache held of each block of the prompt");
    app.add_flag("--json", json_, "Print one JSON object at the end instead of text as it comes");
    sampling_.AddTo(app);
    sampling_.AddCompletionsTo(app);
    AddNumber(
        app, "--beam-width", beam_width_,
        "Search for the N likeliest continuations instead of sampling, listed best first; only "
        "--max-tokens, --ignore-eos, --length-penalty, --logprobs 0 (the chosen tokens') and "
        "--skip-special-tokens matter then");
    AddNumber(
        app, "--length-penalty", length_penalty_,
        "A beam's score is its log-probability / length ^ X, where the length counts prompt and "
        "output tokens (default 1)");
    sampling_.AddStructureTo(app);
    profile_.AddTo(app);
    engine_flags_.AddTo(app);
    app.footer(kRunExamples);
  }

  Status Run() override {
    Result<Request> request = MakeRequest();
    if (!request.ok()) return request.status();
    if (Status status = prompt_.Read(); !status.ok()) return status;
    if (engine_flags_.has_chat_template() && !prompt_.is_chat()) {
      return Status::InvalidArgument(
          "--chat-template is given, but without --chat nothing uses it");
    }
    if (Status status = profile_.Start(engine_flags_); !status.ok()) return status;
    Result<std::unique_ptr<Engine>> engine = engine_flags_.Load();
    if (!engine.ok()) return engine.status();
    profile_.NoteEngine((*engine)->model_info());
    engine_flags_.NoteShortContext("octavo run", **engine);
    Result<std::vector<TokenId>> tokens = prompt_.Tokens(**engine);
    if (!tokens.ok()) return tokens.status();
    request->prompt_token_ids = *std::move(tokens);
    NoteCutOutput(**engine, *request);
    const Status ended = Generate(**engine, *std::move(request));
    engine->reset();
    return profile_.Finish(ended, "octavo run");
  }

 private:
  // All but the prompt.
  Result<Request> MakeRequest() const {
    Request request;
    request.params = sampling_.params();
    request.params.logprobs = logprobs_;
    request.params.prompt_logprobs = prompt_logprobs_;
    request.explain = explain_;
    if ((logprobs_ || prompt_logprobs_) && !json_) {
      return Status::InvalidArgument("--logprobs and --prompt-logprobs need --json");
    }
    if (Status status = request.params.Validate(/*vocab_size=*/0); !status.ok()) return status;
    if (!beam_width_) {
      if (length_penalty_) return Status::InvalidArgument("--length-penalty needs --beam-width");
      return request;
    }
    if (request.params.n != 1) {
      return Status::InvalidArgument("-n and --beam-width do not go together");
    }
    if (prompt_logprobs_) {
      return Status::InvalidArgument("--prompt-logprobs and --beam-width do not go together");
    }
    BeamSearchParams& beams = request.beam_search.emplace();
    beams.beam_width = *beam_width_;
    beams.max_tokens = request.params.max_tokens.value_or(beams.max_tokens);
    beams.ignore_eos = request.params.ignore_eos;
    beams.length_penalty = length_penalty_.value_or(beams.length_penalty);
    if (Status status = engine::CheckBeamSearch(beams); !status.ok()) return status;
    return request;
  }

  // Several completions would interleave, and beams are known at the end only.
  static bool IsStreamed(const Request& request) {
    return request.params.n == 1 && !request.beam_search;
  }

  // What was asked for, if the context cannot hold it.
  static void NoteCutOutput(const Engine& engine, const Request& request) {
    const auto room =
        engine.model_info().max_model_len - static_cast<int64_t>(request.prompt_token_ids.size());
    const int64_t wanted = request.params.max_tokens.value_or(0);
    if (room < 1 || wanted <= room) return;
    WriteStderr(
        fmt::format("octavo run: the context leaves room for {} tokens, not {}\n", room, wanted));
  }

  Status Generate(Engine& engine, Request request) const {
    const bool is_streamed = IsStreamed(request) && !json_;
    const bool has_scores = logprobs_ || request.beam_search;
    Status written;
    const DeltaCallback print = [&written](const RequestDelta& delta) {
      written = WriteStdout(delta.text);
      return written.ok();
    };
    InterruptScope interrupt(engine, InterruptScope::Then::kDefault);
    const Result<RequestOutput> output =
        engine.Generate(std::move(request), is_streamed ? print : DeltaCallback());
    if (!output.ok()) return output.status();
    if (!written.ok()) return written;
    if (json_) {
      written = WriteStdout(Json(engine, *output, has_scores));
    } else {
      written = WriteStdout(is_streamed ? "\n" : Completions(*output, has_scores));
      if (explain_) WriteStderr(ExplanationTable(Explanation(engine, *output)));
      if (ErrorOf(*output).ok()) WriteStderr(FormatStatistics(*output) + "\n");
    }
    if (!written.ok()) return written;
    if (interrupt.TakeInterrupted()) return Status::Cancelled("");
    return ErrorOf(*output);
  }

  static PromptExplanation Explanation(const Engine& engine, const RequestOutput& output) {
    return MakeExplanation(engine, output.prompt_token_ids, output.explanation);
  }

  std::string Json(const Engine& engine, const RequestOutput& output, bool has_scores) const {
    boost::json::object object = RunOutputJson(engine, output, has_scores);
    if (explain_) object["explanation"] = ExplanationJson(Explanation(engine, output));
    return boost::json::serialize(object) + "\n";
  }

  // Every completion under a heading.
  static std::string Completions(const RequestOutput& output, bool has_scores) {
    std::string text;
    for (const CompletionOutput& completion : output.outputs) {
      text += fmt::format(
          "--- {} of {} ({}{}) ---\n{}\n", completion.index + 1, output.outputs.size(),
          FinishReasonName(completion.finish_reason),
          has_scores ? fmt::format(", log-probability {:.3f}", completion.cumulative_logprob) : "",
          completion.text);
    }
    return text;
  }

  PromptFlags prompt_;
  SamplingFlags sampling_{SamplingParams()};
  EngineFlags engine_flags_;
  ProfileFlag profile_;
  std::optional<int32_t> logprobs_;
  std::optional<int32_t> prompt_logprobs_;
  std::optional<int32_t> beam_width_;
  std::optional<float> length_penalty_;
  bool explain_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> AddRunCommand(CLI::App& app) { return std::make_unique<RunCommand>(app); }

}  // namespace octavo::cli
