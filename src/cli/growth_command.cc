#include "cli/growth_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <memory>
#include <utility>

#include "bench/line_plot.h"
#include "cli/streams.h"

namespace octavo::cli {
namespace {

constexpr int32_t kRunningBesideTheQueue = 4;  // sequences
constexpr int32_t kDecodeRoom = 40;            // tokens beyond the longest prompt
constexpr int32_t kGrowthModelLen = 1024;      // tokens, to outlast those who wait
constexpr double kSecondsPerPool = 0.5;

constexpr char kGrowthExamples[] =
    R"(Four curves, each with everything else held still:
  context  tokens/s of one stream that decodes after a prompt of so many tokens
  batch    output tokens/s of so many sequences of short context together
  waiting  output tokens/s of 4 running sequences while so many requests wait
  pool     blocks/s through a cache of so many blocks, all full: no model
Takes some minutes with the default sizes. Prompts longer than the model's context, of at least 1024
tokens, are left out.

Examples:
  octavo bench growth --plots growth
  octavo bench growth --quick --json
)";

}  // namespace

GrowthBench::GrowthBench(CLI::App& app) {
  app.add_flag_callback(
      "--quick",
      [this] {
        contexts_ = {32, 64, 128};
        batches_ = {1, 4};
        waiting_ = {0, 10};
        pools_ = {1000, 10000};
      },
      "Few and small sizes");
  app.add_option("--plots", plot_prefix_, "Write PREFIX-context.svg and so on")
      ->type_name("PREFIX");
  app.add_flag("--json", json_, "Print one JSON object");
  engine_flags_.AddTo(app);
  for (const char* option : {"--kv-cache", "--max-num-seqs"}) {  // the curves set them
    app.remove_option(app.get_option(option));
  }
  app.footer(kGrowthExamples);
}

Status GrowthBench::Run() {
  const Result<EngineOptions> options = engine_flags_.Options();
  if (!options.ok()) return options.status();
  if (!plot_prefix_.empty()) {
    if (Status status = CheckWritable(PlotPath("context")); !status.ok()) return status;
  }
  if (Status status = MeasureEngine(*options); !status.ok()) return status;
  if (Status status = MeasureQueue(*options); !status.ok()) return status;
  Status status = Keep(
      {"pool", "blocks in the pool", "blocks/s", bench::BlockRateByPool(pools_, kSecondsPerPool)});
  if (!status.ok() || !json_) return status;
  return WriteStdout(ToJson());
}

Status GrowthBench::MeasureEngine(const EngineOptions& options) {
  const Result<std::unique_ptr<Engine>> engine = Engine::Create(options);
  if (!engine.ok()) return engine.status();
  const int32_t max_model_len = (*engine)->model_info().max_model_len;
  if (max_model_len < kGrowthModelLen) {
    return Status::InvalidArgument(
        fmt::format("--max-model-len is {}, but this takes at least {} tokens", max_model_len,
                    kGrowthModelLen));
  }
  const int32_t longest = max_model_len - kDecodeRoom;
  std::erase_if(contexts_, [longest](int32_t context) { return context > longest; });
  Result<bench::GrowthCurve> curve = bench::DecodeRateByContext(**engine, contexts_);
  if (!curve.ok()) return curve.status();
  Status status = Keep({"context", "tokens before", "tokens/s", *std::move(curve)});
  if (!status.ok()) return status;
  curve = bench::OutputRateByBatch(**engine, batches_);
  if (!curve.ok()) return curve.status();
  return Keep({"batch", "sequences", "tokens/s", *std::move(curve)});
}

Status GrowthBench::MeasureQueue(const EngineOptions& options) {
  EngineOptions few = options;
  few.scheduler.max_num_seqs = kRunningBesideTheQueue;
  const Result<std::unique_ptr<Engine>> engine = Engine::Create(few);
  if (!engine.ok()) return engine.status();
  Result<bench::GrowthCurve> curve =
      bench::OutputRateByWaiting(**engine, kRunningBesideTheQueue, waiting_);
  if (!curve.ok()) return curve.status();
  return Keep({"waiting", "requests that wait", "tokens/s", *std::move(curve)});
}

// Shows a curve as soon as it is there.
Status GrowthBench::Keep(Curve curve) {
  if (!json_) {
    std::string text = fmt::format("{:>20}  {:>12}\n", curve.x_label, curve.y_label);
    for (const auto& [size, rate] : curve.points) {
      text += fmt::format("{:20.0f}  {:12.1f}\n", size, rate);
    }
    if (Status status = WriteStdout(text + "\n"); !status.ok()) return status;
  }
  if (!plot_prefix_.empty()) {
    bench::LinePlot plot;
    plot.title = fmt::format("{} by {}", curve.y_label, curve.x_label);
    plot.x_label = curve.x_label;
    plot.y_label = curve.y_label;
    plot.x_scale = bench::AxisScale::kLog2;
    bench::PlotSeries series{"octavo", curve.points, false};
    for (auto& [size, rate] : series.points) size = std::max(size, 1.0);  // none waits
    plot.series.push_back(std::move(series));
    Status status = WriteFile(PlotPath(curve.name), bench::PlotSvg(plot));
    if (!status.ok()) return status;
  }
  curves_.push_back(std::move(curve));
  return Status::Ok();
}

std::string GrowthBench::PlotPath(const std::string& name) const {
  return fmt::format("{}-{}.svg", plot_prefix_, name);
}

std::string GrowthBench::ToJson() const {
  boost::json::object object;
  for (const Curve& curve : curves_) {
    boost::json::array points;
    for (const auto& [size, rate] : curve.points) {
      points.push_back(boost::json::array{static_cast<int64_t>(size), rate});
    }
    object[curve.name] = {{"x", curve.x_label}, {"y", curve.y_label}, {"points", points}};
  }
  return boost::json::serialize(object) + "\n";
}

}  // namespace octavo::cli
