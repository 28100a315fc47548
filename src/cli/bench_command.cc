#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <memory>
#include <string>
#include <vector>

#include "bench/cache_value.h"
#include "bench/latency.h"
#include "cli/batching_command.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/growth_command.h"
#include "cli/option_values.h"
#include "cli/profile_flag.h"
#include "cli/roofline_command.h"
#include "cli/serving_command.h"
#include "cli/startup_command.h"
#include "cli/streams.h"
#include "cli/throughput_command.h"

namespace octavo::cli {
namespace {

constexpr char kBenchExamples[] = R"(Examples:
  octavo bench latency --input-len 512 --output-len 128
  octavo bench cache
  octavo bench batching
  octavo bench throughput --num-prompts 4
)";

constexpr char kLatencyExamples[] = R"(Examples:
  octavo bench latency --input-len 512 --output-len 128
  octavo bench latency --threads 1 --repeat 5 --json
  octavo bench latency --input-len 2016 --cached-len 2000 --output-len 16
  octavo bench latency --profile latency.svg
)";

constexpr char kCacheExamples[] =
    R"(Without a cache 4096 tokens take minutes; shorter lengths are quicker.

Examples:
  octavo bench cache
  octavo bench cache --lengths 64,256
)";

// One stream's prefill and decode.
class LatencyBench {
 public:
  explicit LatencyBench(CLI::App& app) {
    AddNumber(app, "--input-len", options_.input_len, "Prompt tokens (default 512)");
    AddNumber(app, "--output-len", options_.output_len, "Output tokens, at least 2 (default 128)");
    AddNumber(app, "--repeat", options_.repeat, "Runs, of which the median is shown (default 3)");
    AddNumber(app, "--cached-len", options_.cached_len,
              "After each run another prompt that shares its first N tokens (default 0: none)");
    app.add_flag("--json", json_, "Print one JSON object");
    profile_.AddTo(app);
    engine_flags_.AddTo(app);
    app.footer(kLatencyExamples);
  }

  Status Run() {
    if (Status status = profile_.Start(engine_flags_); !status.ok()) return status;
    Result<std::unique_ptr<Engine>> engine = engine_flags_.Load();
    if (!engine.ok()) return engine.status();
    profile_.NoteEngine((*engine)->model_info());
    const Status ended = Measure(**engine);
    engine->reset();
    return profile_.Finish(ended, "octavo bench latency");
  }

 private:
  Status Measure(Engine& engine) const {
    const Result<bench::LatencyResult> result = bench::MeasureLatency(engine, options_);
    if (!result.ok()) return result.status();
    return WriteStdout(json_ ? ToJson(engine.model_info(), *result)
                             : ToText(engine.model_info(), *result));
  }
  boost::json::object RunJson(const bench::LatencyRun& run) const {
    boost::json::object object{{"prefill_tokens_per_s", run.prefill_tokens_per_s},
                               {"ttft_s", run.ttft_s},
                               {"decode_tokens_per_s", run.decode_tokens_per_s}};
    if (options_.cached_len > 0) object["cached_ttft_s"] = run.cached_ttft_s;
    return object;
  }
  std::string ToJson(const ModelInfo& info, const bench::LatencyResult& result) const {
    boost::json::array runs;
    for (const bench::LatencyRun& run : result.runs) runs.push_back(RunJson(run));
    boost::json::object object = RunJson(result.median);
    object["input_len"] = options_.input_len;
    object["output_len"] = options_.output_len;
    object["cached_len"] = options_.cached_len;
    object["threads"] = info.threads;
    object["simd"] = info.simd;
    object["runs"] = std::move(runs);
    return boost::json::serialize(object) + "\n";
  }
  std::string ToText(const ModelInfo& info, const bench::LatencyResult& result) const {
    std::string text = fmt::format(
        "{} threads, {}; {} prompt and {} output tokens, median of {}\n"
        "prefill {:9.1f} tokens/s   first token {:.3f} s\n"
        "decode  {:9.1f} tokens/s   {:.2f} ms a token\n",
        info.threads, info.simd, options_.input_len, options_.output_len, result.runs.size(),
        result.median.prefill_tokens_per_s, result.median.ttft_s, result.median.decode_tokens_per_s,
        1e3 / result.median.decode_tokens_per_s);
    if (options_.cached_len > 0) {
      text += fmt::format("with {} of the prompt's tokens cached: first token {:.3f} s, 1/{:.1f}\n",
                          options_.cached_len, result.median.cached_ttft_s,
                          result.median.ttft_s / result.median.cached_ttft_s);
    }
    return text;
  }

  bench::LatencyOptions options_;
  EngineFlags engine_flags_;
  ProfileFlag profile_;
  bool json_ = false;
};

// Generation with and without a KV cache, and memory with and without blocks.
class CacheBench {
 public:
  explicit CacheBench(CLI::App& app) {
    app.add_option_function<std::string>(
           "--lengths",
           [this](const std::string& list) { lengths_ = NumbersOrError("--lengths", list); },
           "Context lengths in tokens (default 64,256,1024,4096)")
        ->type_name("N,N,...");
    app.add_flag("--json", json_, "Print one JSON object");
    engine_flags_.AddTo(app);
    app.remove_option(app.get_option("--kv-cache"));  // both are measured
    app.footer(kCacheExamples);
  }

  Status Run() {
    for (int32_t length : lengths_) {
      if (length < 2) {
        return Status::InvalidArgument(
            fmt::format("--lengths holds {}, but must be at least 2", length));
      }
    }
    Result<EngineOptions> options = engine_flags_.Options();
    if (!options.ok()) return options.status();
    bool is_first = true;
    const Result<std::vector<bench::CacheSpeed>> speeds = bench::MeasureCacheSpeed(
        *options, lengths_, [this, &is_first](const bench::CacheSpeed& row) {
          if (is_first) ShowHeading();
          is_first = false;
          ShowRow(row);
        });
    if (!speeds.ok()) return speeds.status();
    const bench::CacheUtilization utilization =
        bench::MeasureUtilization(options->cache.block_size, kNumSequences, kShortest, kLongest);
    return WriteStdout(json_ ? ToJson(*speeds, utilization) : ToText(*speeds, utilization));
  }

 private:
  static constexpr int32_t kNumSequences = 64;
  static constexpr int32_t kShortest = 64;
  static constexpr int32_t kLongest = 1024;

  void ShowHeading() const {
    if (json_) return;
    WriteStdout(
        "context   with cache        without cache     gain\n"
        " tokens   tokens/s  ms/token  tokens/s  ms/token\n")
        .ok();
  }
  void ShowRow(const bench::CacheSpeed& row) const {
    if (json_) return;
    WriteStdout(fmt::format("{:7}  {:9.1f} {:9.2f} {:9.2f} {:9.1f}  {:7.1f}x\n", row.num_tokens,
                            row.cached_tokens_per_s, 1e3 / row.cached_tokens_per_s,
                            row.uncached_tokens_per_s, 1e3 / row.uncached_tokens_per_s,
                            row.cached_tokens_per_s / row.uncached_tokens_per_s))
        .ok();
  }
  static std::string ToJson(const std::vector<bench::CacheSpeed>& speeds,
                            const bench::CacheUtilization& utilization) {
    boost::json::array rows;
    for (const bench::CacheSpeed& row : speeds) {
      rows.push_back({{"num_tokens", row.num_tokens},
                      {"cached_tokens_per_s", row.cached_tokens_per_s},
                      {"uncached_tokens_per_s", row.uncached_tokens_per_s}});
    }
    const boost::json::object object{{"speed", std::move(rows)},
                                     {"memory",
                                      {{"num_sequences", utilization.num_sequences},
                                       {"mean_tokens", utilization.mean_tokens},
                                       {"reserved_tokens_each", utilization.reserved_tokens_each},
                                       {"contiguous_utilization", utilization.contiguous},
                                       {"paged_utilization", utilization.paged}}}};
    return boost::json::serialize(object) + "\n";
  }
  std::string ToText(const std::vector<bench::CacheSpeed>& speeds,
                     const bench::CacheUtilization& utilization) const {
    const bench::CacheSpeed& first = speeds.front();
    const bench::CacheSpeed& last = speeds.back();
    return fmt::format(
        "\nfrom {} to {} tokens a step takes {:.1f} times as long with the cache, {:.1f} times "
        "without\n"
        "\nmemory of {} sequences of {} to {} tokens (mean {}), share that holds tokens:\n"
        "  contiguous, {} tokens reserved each   {:5.1f} %\n"
        "  paged, blocks on demand               {:5.1f} %\n",
        first.num_tokens, last.num_tokens, first.cached_tokens_per_s / last.cached_tokens_per_s,
        first.uncached_tokens_per_s / last.uncached_tokens_per_s, utilization.num_sequences,
        kShortest, kLongest, utilization.mean_tokens, utilization.reserved_tokens_each,
        100.0 * utilization.contiguous, 100.0 * utilization.paged);
  }

  std::vector<int32_t> lengths_ = {64, 256, 1024, 4096};
  EngineFlags engine_flags_;
  bool json_ = false;
};

class BenchCommand : public Command {
 public:
  explicit BenchCommand(CLI::App& app)
      : latency_app_(app.add_subcommand("latency", "Prefill and decode speed of one stream")),
        cache_app_(app.add_subcommand(
            "cache", "Speed with and without a KV cache; memory contiguous and paged")),
        batching_app_(app.add_subcommand(
            "batching", "Many requests at once: batching, paging, shared prefixes, memory")),
        growth_app_(app.add_subcommand(
            "growth", "What longer contexts, larger batches, queues and pools cost")),
        throughput_app_(app.add_subcommand(
            "throughput", "Equal requests at once, of a given shape: tokens/s, TTFT")),
        serving_app_(
            app.add_subcommand("serve", "Load on a server: TTFT, TPOT, ITL, throughput, goodput")),
        roofline_app_(
            app.add_subcommand("roofline", "What this machine reads and multiplies at best")),
        kernels_app_(app.add_subcommand("kernels",
                                        "The matrix products, as shares of the machine's bounds")),
        startup_app_(app.add_subcommand(
            "startup", "From the start of the process until it can serve; peak memory")),
        latency_(*latency_app_),
        cache_(*cache_app_),
        batching_(*batching_app_),
        growth_(*growth_app_),
        throughput_(*throughput_app_),
        serving_(*serving_app_),
        roofline_(*roofline_app_),
        kernels_(*kernels_app_),
        startup_(*startup_app_) {
    app.require_subcommand(1);
    app.footer(kBenchExamples);
  }

  Status Run() override {
    if (latency_app_->parsed()) return latency_.Run();
    if (growth_app_->parsed()) return growth_.Run();
    if (throughput_app_->parsed()) return throughput_.Run();
    if (serving_app_->parsed()) return serving_.Run();
    if (roofline_app_->parsed()) return roofline_.Run();
    if (kernels_app_->parsed()) return kernels_.Run();
    if (startup_app_->parsed()) return startup_.Run();
    return cache_app_->parsed() ? cache_.Run() : batching_.Run();
  }

 private:
  CLI::App* latency_app_;
  CLI::App* cache_app_;
  CLI::App* batching_app_;
  CLI::App* growth_app_;
  CLI::App* throughput_app_;
  CLI::App* serving_app_;
  CLI::App* roofline_app_;
  CLI::App* kernels_app_;
  CLI::App* startup_app_;
  LatencyBench latency_;
  CacheBench cache_;
  BatchingBench batching_;
  GrowthBench growth_;
  ThroughputBench throughput_;
  ServingBench serving_;
  RooflineBench roofline_;
  KernelsBench kernels_;
  StartupBench startup_;
};

}  // namespace

std::unique_ptr<Command> AddBenchCommand(CLI::App& app) {
  return std::make_unique<BenchCommand>(app);
}

}  // namespace octavo::cli
