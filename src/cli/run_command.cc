#include <fmt/format.h>

#include <boost/json/serialize.hpp>
#include <optional>
#include <string>

#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/interrupt.h"
#include "cli/option_values.h"
#include "cli/output_json.h"
#include "cli/prompt_flags.h"
#include "cli/sampling_flags.h"
#include "cli/statistics.h"
#include "cli/streams.h"

namespace octavo::cli {
namespace {

constexpr char kExamples[] = R"(Examples:
  octavo run -p "The capital of France is" --temperature 0
  octavo run --chat -p "Write a haiku about paper." --max-tokens 100 --seed 7
  octavo run --prompt-file - --json < prompt.txt
  octavo run --prompt-token-ids 504,3575,282 --logprobs 5 --json
)";

class RunCommand : public Command {
 public:
  explicit RunCommand(CLI::App& app) {
    prompt_.AddTo(app);
    AddNumber(app, "--logprobs", logprobs_,
              "Report the N most likely tokens at each output token; -1 = all (with --json)");
    AddNumber(app, "--prompt-logprobs", prompt_logprobs_,
              "The same for each token of the prompt (with --json)");
    app.add_flag("--json", json_, "Print one JSON object at the end instead of text as it comes");
    sampling_.AddTo(app);
    engine_flags_.AddTo(app);
    app.footer(kExamples);
  }

  Status Run() override {
    SamplingParams params = sampling_.params();
    params.logprobs = logprobs_;
    params.prompt_logprobs = prompt_logprobs_;
    if ((logprobs_ || prompt_logprobs_) && !json_) {
      return Status::InvalidArgument("--logprobs and --prompt-logprobs need --json");
    }
    if (Status status = params.Validate(/*vocab_size=*/0); !status.ok()) return status;
    if (Status status = prompt_.Read(); !status.ok()) return status;
    Result<std::unique_ptr<Engine>> engine = engine_flags_.Load();
    if (!engine.ok()) return engine.status();
    Result<std::vector<TokenId>> tokens = prompt_.Tokens(**engine);
    if (!tokens.ok()) return tokens.status();
    return Generate(**engine, *tokens, params);
  }

 private:
  Status Generate(Engine& engine, const std::vector<TokenId>& tokens,
                  const SamplingParams& params) const {
    Status written;
    const DeltaCallback print = [&written](const RequestDelta& delta) {
      written = WriteStdout(delta.text);
      return written.ok();
    };
    InterruptScope interrupt(engine, InterruptScope::Then::kDefault);
    Result<RequestOutput> output = engine.Generate(tokens, params, json_ ? DeltaCallback() : print);
    if (!output.ok()) return output.status();
    if (!written.ok()) return written;
    if (json_) {
      written = WriteStdout(boost::json::serialize(RunOutputJson(engine, *output)) + "\n");
    } else {
      written = WriteStdout("\n");
      if (ErrorOf(*output).ok()) WriteStderr(FormatStatistics(*output) + "\n");
    }
    if (!written.ok()) return written;
    if (interrupt.TakeInterrupted()) return Status::Cancelled("");
    return ErrorOf(*output);
  }

  PromptFlags prompt_;
  SamplingFlags sampling_{SamplingParams()};
  EngineFlags engine_flags_;
  std::optional<int32_t> logprobs_;
  std::optional<int32_t> prompt_logprobs_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> AddRunCommand(CLI::App& app) { return std::make_unique<RunCommand>(app); }

}  // namespace octavo::cli
