#include "cli/throughput_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <memory>
#include <utility>

#include "cli/option_values.h"
#include "cli/streams.h"

namespace octavo::cli {
namespace {

constexpr char kThroughputExamples[] =
    R"(All requests are submitted at once; every run finds an empty prefix cache. "decode" counts
the time in which all sequences decode: from the last one's first token to the first one's end.

Examples:
  octavo bench throughput
  octavo bench throughput --num-prompts 4 --input-len 128 --output-len 128
  octavo bench throughput --prefix-len 510 --input-len 2 --json
)";

boost::json::object RunJson(const bench::BatchingResult& run) {
  return {{"duration_s", run.duration_s},
          {"output_tokens_per_s", run.output_tokens_per_s},
          {"total_tokens_per_s", run.total_tokens_per_s},
          {"decode_tokens_per_s", run.decode_tokens_per_s},
          {"ttft_p50_s", run.ttft_s.p50},
          {"ttft_p90_s", run.ttft_s.p90},
          {"ttft_p99_s", run.ttft_s.p99},
          {"num_cached_tokens", run.num_cached_tokens},
          {"num_preemptions", run.num_preemptions},
          {"max_running", run.max_running}};
}

// The run with the middle duration.
const bench::BatchingResult& MedianRun(std::vector<bench::BatchingResult>& runs) {
  std::ranges::sort(runs, {}, &bench::BatchingResult::duration_s);
  return runs[runs.size() / 2];
}

}  // namespace

ThroughputBench::ThroughputBench(CLI::App& app) {
  AddNumber(app, "--num-prompts", num_prompts_, "Requests (default 16)");
  AddNumber(app, "--input-len", input_len_,
            "Tokens of each prompt that it alone has (default 510)");
  AddNumber(app, "--output-len", output_len_, "Output tokens of each (default 64)");
  AddNumber(app, "--prefix-len", prefix_len_, "Tokens before them that all share (default 0)");
  AddNumber(app, "--repeat", repeat_, "Runs, of which the median is shown (default 3)");
  app.add_flag("--json", json_, "Print one JSON object");
  engine_flags_.AddTo(app);
  app.footer(kThroughputExamples);
}

Status ThroughputBench::Check() const {
  const auto check = [](const char* option, int32_t value, int32_t least) {
    if (value >= least) return Status::Ok();
    return Status::InvalidArgument(
        fmt::format("{} is {}, but must be at least {}", option, value, least));
  };
  for (const Status& status :
       {check("--num-prompts", num_prompts_, 1), check("--input-len", input_len_, 1),
        check("--output-len", output_len_, 1), check("--prefix-len", prefix_len_, 0),
        check("--repeat", repeat_, 1)}) {
    if (!status.ok()) return status;
  }
  return Status::Ok();
}

Status ThroughputBench::Run() {
  if (Status status = Check(); !status.ok()) return status;
  const Result<std::unique_ptr<Engine>> engine = engine_flags_.Load();
  if (!engine.ok()) return engine.status();
  const ModelInfo& info = (*engine)->model_info();
  const int64_t length = int64_t{prefix_len_} + input_len_ + output_len_;
  if (length > info.max_model_len) {
    return Status::InvalidArgument(
        fmt::format("--prefix-len, --input-len and --output-len are {} tokens together, but "
                    "--max-model-len is {}",
                    length, info.max_model_len));
  }
  bench::Workload workload;
  workload.num_requests = num_prompts_;
  workload.shared_prefix = prefix_len_;
  workload.shortest_input = workload.longest_input = input_len_;
  workload.shortest_output = workload.longest_output = output_len_;
  std::vector<bench::BatchingResult> runs;
  for (int32_t i = 0; i < repeat_; ++i) {
    const Result<bench::BatchingResult> run = bench::RunWorkload(**engine, workload);
    if (!run.ok()) return run.status();
    runs.push_back(*run);
  }
  return WriteStdout(json_ ? ToJson(info, runs) : ToText(info, runs));
}

std::string ThroughputBench::ToJson(const ModelInfo& info,
                                    const std::vector<bench::BatchingResult>& runs) const {
  std::vector<bench::BatchingResult> sorted = runs;
  boost::json::object object = RunJson(MedianRun(sorted));
  object["num_prompts"] = num_prompts_;
  object["input_len"] = input_len_;
  object["output_len"] = output_len_;
  object["prefix_len"] = prefix_len_;
  object["threads"] = info.threads;
  object["simd"] = info.simd;
  boost::json::array list;
  for (const bench::BatchingResult& run : runs) list.push_back(RunJson(run));
  object["runs"] = std::move(list);
  return boost::json::serialize(object) + "\n";
}

std::string ThroughputBench::ToText(const ModelInfo& info,
                                    const std::vector<bench::BatchingResult>& runs) const {
  std::vector<bench::BatchingResult> sorted = runs;
  const bench::BatchingResult& run = MedianRun(sorted);
  return fmt::format(
      "{} threads, {}; {} requests of {} shared, {} own and {} output tokens, median of {}\n"
      "output  {:9.1f} tokens/s   all {:.1f} tokens/s in {:.2f} s\n"
      "decode  {:>9} tokens/s   while all decode\n"
      "TTFT    {:9.3f} s          p90 {:.3f} s, p99 {:.3f} s\n"
      "cached  {:9} tokens     {} preemptions\n",
      info.threads, info.simd, num_prompts_, prefix_len_, input_len_, output_len_, runs.size(),
      run.output_tokens_per_s, run.total_tokens_per_s, run.duration_s,
      run.decode_tokens_per_s > 0 ? fmt::format("{:.1f}", run.decode_tokens_per_s) : "-",
      run.ttft_s.p50, run.ttft_s.p90, run.ttft_s.p99, run.num_cached_tokens, run.num_preemptions);
}

}  // namespace octavo::cli
