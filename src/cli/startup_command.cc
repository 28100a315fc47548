#include "cli/startup_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "base/self_process.h"
#include "cli/option_values.h"
#include "cli/streams.h"
#include "octavo/profiler.h"

namespace octavo::cli {
namespace {

constexpr char kStartupExamples[] =
    R"(Every start is a process of its own. Before the first one, the system is asked to forget what
it holds of the file (the first shard of a split one), so that it reads the disk; where other
programs use the file it may not. When it is ready, a prompt of 512 tokens is computed.

Examples:
  octavo bench startup
  octavo bench startup -m model.gguf --threads 4 --repeat 9 --json
)";

boost::json::object SampleJson(const bench::StartupSample& sample) {
  return {{"ready_s", sample.ready_s},
          {"program_s", sample.program_s},
          {"open_s", sample.load.open_s},
          {"text_s", sample.load.text_s},
          {"weights_s", sample.load.weights_s},
          {"rest_s", sample.load.rest_s},
          {"first_token_s", sample.first_token_s},
          {"peak_ready_bytes", sample.peak_ready_bytes},
          {"peak_prompt_bytes", sample.peak_prompt_bytes},
          {"file_bytes", sample.file_bytes},
          {"kv_bytes", sample.kv_bytes},
          {"activation_bytes", sample.activation_bytes},
          {"num_prompt_tokens", sample.num_prompt_tokens}};
}

// What SampleJson has printed in another process.
bench::StartupSample SampleOf(const boost::json::value& json) {
  bench::StartupSample sample;
  sample.ready_s = json.at("ready_s").to_number<double>();
  sample.program_s = json.at("program_s").to_number<double>();
  sample.load.open_s = json.at("open_s").to_number<double>();
  sample.load.text_s = json.at("text_s").to_number<double>();
  sample.load.weights_s = json.at("weights_s").to_number<double>();
  sample.load.rest_s = json.at("rest_s").to_number<double>();
  sample.first_token_s = json.at("first_token_s").to_number<double>();
  sample.peak_ready_bytes = json.at("peak_ready_bytes").to_number<int64_t>();
  sample.peak_prompt_bytes = json.at("peak_prompt_bytes").to_number<int64_t>();
  sample.file_bytes = json.at("file_bytes").to_number<int64_t>();
  sample.kv_bytes = json.at("kv_bytes").to_number<int64_t>();
  sample.activation_bytes = json.at("activation_bytes").to_number<int64_t>();
  sample.num_prompt_tokens = json.at("num_prompt_tokens").to_number<int32_t>();
  return sample;
}

boost::json::object AimJson(const bench::StartupSample& sample) {
  using Aim = bench::StartupAim;
  return {{"file_bytes", sample.file_bytes},
          {"file_share_bytes", Aim::FileShareBytes(sample)},
          {"program_bytes", Aim::kProgramBytes},
          {"activation_bytes", sample.activation_bytes},
          {"kv_bytes", sample.kv_bytes},
          {"limit_ready_bytes", Aim::ReadyBytes(sample)},
          {"limit_prompt_bytes", Aim::PromptBytes(sample)},
          {"peak_ready_bytes", sample.peak_ready_bytes},
          {"peak_prompt_bytes", sample.peak_prompt_bytes},
          {"holds", Aim::Holds(sample)}};
}

// Asks the system to forget its copy of the file.
void DropFromPageCache(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;  // the first start says why
  posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  close(file);
}

std::string PeakLine(const std::string& when, int64_t peak, int64_t limit) {
  return fmt::format("  peak {:<28} {:9.1f} MB of {:.1f} MB: {}\n", when,
                     static_cast<double>(peak) / 1e6, static_cast<double>(limit) / 1e6,
                     peak <= limit ? "holds" : "DOES NOT HOLD");
}

}  // namespace

StartupBench::StartupBench(CLI::App& app) {
  AddNumber(app, "--repeat", repeat_, "Warm starts, of which the median is shown (default 5)");
  app.add_flag("--json", json_, "Print one JSON object");
  AddNumber(app, "--begun-at-ns", begun_at_ns_, "")->group("");
  engine_flags_.AddTo(app);
  app.footer(kStartupExamples);
}

Status StartupBench::Run() {
  if (repeat_ < 1) {
    return Status::InvalidArgument(fmt::format("--repeat is {}, but must be at least 1", repeat_));
  }
  const Result<EngineOptions> options = engine_flags_.Options();
  if (!options.ok()) return options.status();
  if (begun_at_ns_) return RunAsSample(*options);
  if (Status status = Probe(*options); !status.ok()) return status;

  DropFromPageCache(options->model.path);
  const Result<bench::StartupSample> cold = RunOnce();
  if (!cold.ok()) return cold.status();
  std::vector<bench::StartupSample> runs;
  boost::json::array runs_json;
  for (int32_t i = 0; i < repeat_; ++i) {
    const Result<bench::StartupSample> run = RunOnce();
    if (!run.ok()) return run.status();
    runs.push_back(*run);
    runs_json.push_back(SampleJson(*run));
  }
  const bench::StartupSample warm = bench::MedianOf(runs);
  if (!json_) return WriteStdout(ToText(*cold, warm));
  const boost::json::object object{{"cold", SampleJson(*cold)},
                                   {"warm", SampleJson(warm)},
                                   {"warm_runs", std::move(runs_json)},
                                   {"memory", AimJson(warm)}};
  return WriteStdout(boost::json::serialize(object) + "\n");
}

// Whether these options make an engine that can be measured, so that no child has to complain.
Status StartupBench::Probe(const EngineOptions& options) {
  const Result<std::unique_ptr<Engine>> engine = Engine::Create(options);
  if (!engine.ok()) return engine.status();
  const int32_t max_model_len = (*engine)->model_info().max_model_len;
  if (max_model_len >= 2) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("--max-model-len is {}, but a prompt and its first token take 2", max_model_len));
}

Status StartupBench::RunAsSample(const EngineOptions& options) const {
  const Result<bench::StartupSample> sample = bench::MeasureStartup(options, *begun_at_ns_);
  if (!sample.ok()) return sample.status();
  return WriteStdout(boost::json::serialize(SampleJson(*sample)) + "\n");
}

Result<bench::StartupSample> StartupBench::RunOnce() const {
  const Result<std::string> output =
      base::RunSelfAgain({"--begun-at-ns", std::to_string(Profiler::NowNs())});
  if (!output.ok()) return output.status();
  return SampleOf(boost::json::parse(*output));
}

std::string StartupBench::ToText(const bench::StartupSample& cold,
                                 const bench::StartupSample& warm) const {
  using Aim = bench::StartupAim;
  std::string text = fmt::format("{:<32} {:>9} {:>9}   (seconds; warm: median of {})\n", "start-up",
                                 "cold", "warm", repeat_);
  const auto add_time = [&](const char* name, double cold_s, double warm_s) {
    text += fmt::format("  {:<30} {:9.3f} {:9.3f}\n", name, cold_s, warm_s);
  };
  add_time("program and command line", cold.program_s, warm.program_s);
  add_time("file opened and checked", cold.load.open_s, warm.load.open_s);
  add_time("tokenizer and chat template", cold.load.text_s, warm.load.text_s);
  add_time("weights read and packed", cold.load.weights_s, warm.load.weights_s);
  add_time("cache, buffers and threads", cold.load.rest_s, warm.load.rest_s);
  add_time("ready", cold.ready_s, warm.ready_s);
  add_time("then, the first token", cold.first_token_s, warm.first_token_s);
  const auto add_bytes = [&text](const std::string& name, int64_t bytes) {
    text += fmt::format("  {:<33} {:9.1f} MB\n", name, static_cast<double>(bytes) / 1e6);
  };
  text += "\nresident memory\n";
  add_bytes("model file", warm.file_bytes);
  add_bytes("+ 15 % of it", Aim::FileShareBytes(warm));
  add_bytes("+ program, 48 MiB", Aim::kProgramBytes);
  add_bytes("+ activations and logits", warm.activation_bytes);
  add_bytes(fmt::format("+ K and V of {} tokens", warm.num_prompt_tokens), warm.kv_bytes);
  text += PeakLine("when ready", warm.peak_ready_bytes, Aim::ReadyBytes(warm));
  text += PeakLine("after the prompt", warm.peak_prompt_bytes, Aim::PromptBytes(warm));
  return text;
}

}  // namespace octavo::cli
