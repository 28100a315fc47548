#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "bench/line_plot.h"
#include "bench/replay.h"
#include "bench/trace.h"
#include "cli/commands.h"
#include "cli/option_values.h"
#include "cli/streams.h"
#include "octavo/kvcache/kv_cache_spec.h"
#include "text/utf8.h"

namespace octavo::cli {
namespace {

using kvcache::EvictionPolicyKind;

constexpr char kReplayExamples[] =
    R"(Replays the requests of a trace against the KV cache's real bookkeeping, without a model, and
shows how much of the prompts each eviction policy would have found in pools of growing size.

A trace has one JSON object a line: {"timestamp": ms, "input_length": tokens, "output_length":
tokens, "hash_ids": [one id for each 512 tokens of the prompt; equal ids are equal content]}. The
traces of the Mooncake project (github.com/kvcache-ai/Mooncake) are such files.

Requests start in the order of their arrival, as soon as the pool can give the blocks for prompt
and output, and hold them while they run. A trace does not tell the output's tokens, so no prompt
finds them again.

  hit rate     prompt tokens found in the cache
  of bound     the same, against a pool without end
  work saved   of the work of computing all prompts, where late tokens cost more than early ones
  peak use     most of the pool that running requests held at once
  refused      requests that the whole pool cannot hold; they count as not found

Examples:
  octavo replay conversation_trace.jsonl
  octavo replay conversation_trace.jsonl --pool-tokens 1000000,4000000 --policy lru --json
  octavo replay conversation_trace.jsonl --plot hit-rate.svg
)";

constexpr char kHeading[] =
    "policy       pool tokens  hit rate  of bound  work saved   evictions  peak use  refused  "
    "mean wait\n";

template <typename T>
void AddOnce(const T& value, std::vector<T>* values) {
  if (std::find(values->begin(), values->end(), value) == values->end()) values->push_back(value);
}

std::vector<EvictionPolicyKind> PoliciesOrError(std::string_view list) {
  std::vector<EvictionPolicyKind> policies;
  while (true) {
    const size_t comma = list.find(',');
    const std::string_view word = list.substr(0, comma);
    if (word != "lru" && word != "cost_aware") {
      throw CLI::ValidationError("--policy",
                                 "'" + std::string(word) + "' is not one of lru|cost_aware");
    }
    AddOnce(word == "lru" ? EvictionPolicyKind::kLru : EvictionPolicyKind::kCostAware, &policies);
    if (comma == std::string_view::npos) return policies;
    list.remove_prefix(comma + 1);
  }
}

class ReplayCommand : public Command {
 public:
  explicit ReplayCommand(CLI::App& app) {
    app.add_option("trace", trace_path_, "The trace; - = standard input")
        ->type_name("TRACE")
        ->required();
    app.add_option_function<std::string>(
           "--policy", [this](const std::string& list) { policies_ = PoliciesOrError(list); },
           "Eviction policies (default lru,cost_aware)")
        ->type_name("lru|cost_aware,...");
    app.add_option_function<std::string>(
           "--pool-tokens",
           [this](const std::string& list) {
             for (const int32_t pool : NumbersOrError("--pool-tokens", list)) {
               AddOnce(pool, &pools_);
             }
           },
           "Pool sizes (default: powers of two, from the longest request to all distinct tokens)")
        ->type_name("N,N,...");
    AddNumber(app, "--block-size", options_.block_size_tokens,
              "Tokens per cache block: 8, 16, 32, 64, 128 or 256 (default 64)");
    AddNumber(app, "--prefill-rate", options_.prefill_tokens_per_s,
              "Prompt tokens a second of one request, which say how long it runs (default 20000)");
    AddNumber(app, "--decode-rate", options_.decode_tokens_per_s,
              "Output tokens a second of one request (default 50)");
    app.add_flag("--json", json_, "Print one JSON object");
    app.add_option_function<std::string>(
           "--plot",
           [this](const std::string& path) {
             if (path.empty()) throw CLI::ValidationError("--plot", "the file's name is empty");
             plot_path_ = path;
           },
           "Write hit rate against pool size as an SVG picture")
        ->type_name("FILE");
    app.footer(kReplayExamples);
  }

  Status Run() override {
    if (Status status = CheckOptions(); !status.ok()) return status;
    if (!plot_path_.empty()) {
      if (Status status = CheckPlotPath(); !status.ok()) return status;
    }
    const Result<std::string> text = ReadFileOrStdin(trace_path_, bench::kMaxTraceLineBytes);
    if (!text.ok()) return text.status();
    const std::string name = trace_path_ == "-" ? "standard input" : trace_path_;
    const Result<bench::Trace> trace = bench::ParseTrace(name, *text);
    if (!trace.ok()) return trace.status();
    bound_ = bench::BoundOf(*trace);
    if (pools_.empty()) pools_ = DefaultPools(*trace);
    if (!json_) {
      if (Status status = WriteStdout(Introduction(*trace)); !status.ok()) return status;
    }
    for (const int32_t pool : pools_) {
      for (const EvictionPolicyKind policy : policies_) {
        runs_.push_back(ReplayOne(*trace, policy, pool));
        if (json_) continue;
        if (Status status = WriteStdout(Row(runs_.back())); !status.ok()) return status;
      }
    }
    if (json_) {
      if (Status status = WriteStdout(Json(*trace)); !status.ok()) return status;
    }
    return plot_path_.empty() ? Status::Ok() : WriteFile(plot_path_, Plot(name, *trace));
  }

 private:
  Status CheckOptions() const {
    if (!kvcache::IsBlockSize(options_.block_size_tokens)) {
      return Status::InvalidArgument(fmt::format(
          "--block-size is {}, but must be 8, 16, 32, 64, 128 or 256", options_.block_size_tokens));
    }
    for (const int32_t pool : pools_) {
      if (pool >= options_.block_size_tokens) continue;
      return Status::InvalidArgument(
          fmt::format("--pool-tokens holds {}, but must be at least a block of {} tokens", pool,
                      options_.block_size_tokens));
    }
    // Written so that nan is refused.
    if (!(options_.prefill_tokens_per_s >= 1.0 && options_.prefill_tokens_per_s <= 1e12)) {
      return Status::InvalidArgument(fmt::format("--prefill-rate is {}, but must be in [1, 1e12]",
                                                 options_.prefill_tokens_per_s));
    }
    if (!(options_.decode_tokens_per_s >= 1e-3 && options_.decode_tokens_per_s <= 1e12)) {
      return Status::InvalidArgument(fmt::format("--decode-rate is {}, but must be in [1e-3, 1e12]",
                                                 options_.decode_tokens_per_s));
    }
    return Status::Ok();
  }

  // Before the replay, which may take minutes.
  Status CheckPlotPath() const {
    if (IsSameFile(trace_path_, plot_path_)) {
      return Status::InvalidArgument(
          fmt::format("--plot {} is the trace itself, and would replace it", plot_path_));
    }
    return CheckWritable(plot_path_);
  }

  std::vector<int32_t> DefaultPools(const bench::Trace& trace) const {
    int64_t pool = options_.block_size_tokens;
    while (pool < trace.max_request_tokens) pool *= 2;
    std::vector<int32_t> pools = {static_cast<int32_t>(pool)};
    for (pool *= 2; pool < std::min<int64_t>(bound_.pool_tokens, int64_t{1} << 31); pool *= 2) {
      pools.push_back(static_cast<int32_t>(pool));
    }
    return pools;
  }

  bench::ReplayRun ReplayOne(const bench::Trace& trace, EvictionPolicyKind policy,
                             int32_t pool_tokens) const {
    if (!StderrIsTerminal()) return bench::Replay(trace, policy, pool_tokens, options_);
    const bench::ReplayRun run =
        bench::Replay(trace, policy, pool_tokens, options_, [&](double share) {
          WriteStderr(fmt::format("\r{} {}: {} %\x1b[K", bench::EvictionPolicyName(policy),
                                  pool_tokens, static_cast<int>(100.0 * share)));
        });
    WriteStderr("\r\x1b[K");
    return run;
  }

  std::string Introduction(const bench::Trace& trace) const {
    return fmt::format(
        "{} requests, {} prompt and {} output tokens; blocks of {} tokens\n"
        "a pool without end finds {:.1f} % and saves {:.1f} % of the work; it comes to hold {} "
        "tokens\n\n{}",
        trace.requests.size(), trace.num_prompt_tokens, trace.num_output_tokens,
        options_.block_size_tokens, 100.0 * bound_.hits.hit_rate(),
        100.0 * bound_.hits.saved_cost_share(), bound_.pool_tokens, kHeading);
  }

  double ShareOfBound(const bench::ReplayRun& run) const {
    const double bound = bound_.hits.hit_rate();
    return bound > 0.0 ? run.hits.hit_rate() / bound : 1.0;
  }
  static double PeakUse(const bench::ReplayRun& run) {
    return static_cast<double>(run.peak_blocks_in_use) / run.num_blocks;
  }

  std::string Row(const bench::ReplayRun& run) const {
    return fmt::format(
        "{:<11} {:>12}  {:>6.2f} %  {:>6.1f} %  {:>8.2f} %  {:>10}  {:>6.1f} %  {:>7}  {:>7.1f} "
        "s\n",
        bench::EvictionPolicyName(run.policy), run.pool_tokens, 100.0 * run.hits.hit_rate(),
        100.0 * ShareOfBound(run), 100.0 * run.hits.saved_cost_share(), run.num_evictions,
        100.0 * PeakUse(run), run.num_refused, run.mean_wait_s);
  }

  std::string Json(const bench::Trace& trace) const {
    boost::json::array runs;
    for (const bench::ReplayRun& run : runs_) {
      runs.push_back({{"policy", bench::EvictionPolicyName(run.policy)},
                      {"pool_tokens", run.pool_tokens},
                      {"hit_rate", run.hits.hit_rate()},
                      {"num_hit_tokens", run.hits.num_hit_tokens},
                      {"share_of_bound", ShareOfBound(run)},
                      {"saved_work_share", run.hits.saved_cost_share()},
                      {"num_evictions", run.num_evictions},
                      {"peak_use", PeakUse(run)},
                      {"peak_running", run.peak_running},
                      {"num_refused", run.num_refused},
                      {"mean_wait_s", run.mean_wait_s}});
    }
    const boost::json::object object{{"trace", text::ReplaceInvalidUtf8(trace_path_)},
                                     {"num_requests", trace.requests.size()},
                                     {"num_prompt_tokens", trace.num_prompt_tokens},
                                     {"num_output_tokens", trace.num_output_tokens},
                                     {"block_size", options_.block_size_tokens},
                                     {"prefill_rate", options_.prefill_tokens_per_s},
                                     {"decode_rate", options_.decode_tokens_per_s},
                                     {"bound",
                                      {{"pool_tokens", bound_.pool_tokens},
                                       {"hit_rate", bound_.hits.hit_rate()},
                                       {"num_hit_tokens", bound_.hits.num_hit_tokens},
                                       {"saved_work_share", bound_.hits.saved_cost_share()}}},
                                     {"runs", std::move(runs)}};
    return boost::json::serialize(object) + "\n";
  }

  std::string Plot(const std::string& name, const bench::Trace& trace) const {
    bench::LinePlot plot;
    plot.title = "Prompt tokens found in the KV cache, by pool size";
    plot.subtitle = fmt::format("{}: {} requests, blocks of {} tokens",
                                text::ReplaceInvalidUtf8(name.substr(name.find_last_of('/') + 1)),
                                trace.requests.size(), options_.block_size_tokens);
    plot.x_label = "pool size, tokens";
    plot.y_label = "hit rate";
    plot.x_scale = bench::AxisScale::kLog2;
    plot.y_is_share = true;
    for (const EvictionPolicyKind policy : policies_) {
      bench::PlotSeries series;
      series.name = bench::EvictionPolicyName(policy);
      for (const bench::ReplayRun& run : runs_) {
        if (run.policy != policy) continue;
        series.points.emplace_back(static_cast<double>(run.pool_tokens), run.hits.hit_rate());
      }
      plot.series.push_back(std::move(series));
    }
    const auto [least, most] = std::minmax_element(pools_.begin(), pools_.end());
    plot.series.push_back({"pool without end",
                           {{*least, bound_.hits.hit_rate()}, {*most, bound_.hits.hit_rate()}},
                           /*is_bound=*/true});
    return bench::PlotSvg(plot);
  }

  std::string trace_path_;
  std::vector<EvictionPolicyKind> policies_ = {EvictionPolicyKind::kLru,
                                               EvictionPolicyKind::kCostAware};
  std::vector<int32_t> pools_;
  bench::ReplayOptions options_;
  std::string plot_path_;
  bool json_ = false;

  bench::ReplayBound bound_;
  std::vector<bench::ReplayRun> runs_;
};

}  // namespace

std::unique_ptr<Command> AddReplayCommand(CLI::App& app) {
  return std::make_unique<ReplayCommand>(app);
}

}  // namespace octavo::cli
