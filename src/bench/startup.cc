#include "bench/startup.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/machine.h"
#include "bench/latency.h"
#include "formats/gguf_file.h"
#include "octavo/profiler.h"

namespace octavo::bench {
namespace {

constexpr int32_t kPromptTokens = 512;

Result<int64_t> PeakResidentBytes() {
  const std::optional<int64_t> peak = base::PeakResidentBytes();
  if (!peak) return Status::Unavailable("/proc/self/status does not tell VmHWM, the peak memory");
  return *peak;
}

template <typename T>
T Median(std::span<const StartupSample> samples, T (*field)(const StartupSample&)) {
  std::vector<T> values;
  for (const StartupSample& sample : samples) values.push_back(field(sample));
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

Result<StartupSample> MeasureStartup(const EngineOptions& options, int64_t begun_ns) {
  StartupSample sample;
  const int64_t created_ns = Profiler::NowNs();
  if (begun_ns > created_ns) {
    return Status::InvalidArgument(
        fmt::format("the process began at {} ns, but it is {} ns now", begun_ns, created_ns));
  }
  const Result<std::unique_ptr<Engine>> engine = Engine::Create(options);
  if (!engine.ok()) return engine.status();
  sample.ready_s = static_cast<double>(Profiler::NowNs() - begun_ns) / 1e9;
  sample.program_s = static_cast<double>(created_ns - begun_ns) / 1e9;
  const ModelInfo& info = (*engine)->model_info();
  sample.load = info.load;
  sample.file_bytes = info.file_bytes;
  const MemoryPlan plan = (*engine)->memory_plan();
  sample.activation_bytes = plan.actual[MemoryTag::kActivations] + plan.actual[MemoryTag::kScratch];
  Result<int64_t> peak = PeakResidentBytes();
  if (!peak.ok()) return peak.status();
  sample.peak_ready_bytes = *peak;

  sample.num_prompt_tokens = std::min(kPromptTokens, info.max_model_len - 1);
  SamplingParams params;
  params.temperature = 0.0f;
  params.max_tokens = 1;
  params.detokenize = false;
  const Result<RequestOutput> output =
      (*engine)->Generate(SyntheticPrompt(info, sample.num_prompt_tokens), params);
  if (!output.ok()) return output.status();
  sample.first_token_s = output->timing.ttft_s;
  const int64_t num_blocks = (sample.num_prompt_tokens + info.block_size - 1) / info.block_size;
  sample.kv_bytes = num_blocks * info.block_size * plan.kv_bytes_per_token;
  peak = PeakResidentBytes();
  if (!peak.ok()) return peak.status();
  sample.peak_prompt_bytes = *peak;
  return sample;
}

StartupSample MedianOf(std::span<const StartupSample> samples) {
  using Sample = const StartupSample&;
  StartupSample median = samples.front();
  median.ready_s = Median<double>(samples, [](Sample s) { return s.ready_s; });
  median.program_s = Median<double>(samples, [](Sample s) { return s.program_s; });
  median.load.open_s = Median<double>(samples, [](Sample s) { return s.load.open_s; });
  median.load.text_s = Median<double>(samples, [](Sample s) { return s.load.text_s; });
  median.load.weights_s = Median<double>(samples, [](Sample s) { return s.load.weights_s; });
  median.load.rest_s = Median<double>(samples, [](Sample s) { return s.load.rest_s; });
  median.first_token_s = Median<double>(samples, [](Sample s) { return s.first_token_s; });
  for (const StartupSample& sample : samples) {
    median.peak_ready_bytes = std::max(median.peak_ready_bytes, sample.peak_ready_bytes);
    median.peak_prompt_bytes = std::max(median.peak_prompt_bytes, sample.peak_prompt_bytes);
  }
  return median;
}

}  // namespace octavo::bench
