#include "server/engine_metrics.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "octavo/request_output.h"
#include "server/exposition.h"

namespace octavo::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

class Families {
 public:
  explicit Families(std::vector<MetricFamily>* families) : families_(*families) {}

  void Gauge(const char* name, const char* help, double value, Labels labels = {}) {
    Add(name, help, MetricType::Gauge, std::move(labels)).gauge.value = value;
  }
  void Counter(const char* name, const char* help, uint64_t value, Labels labels = {}) {
    Add(name, help, MetricType::Counter, std::move(labels)).counter.value =
        static_cast<double>(value);
  }
  void Durations(const char* name, const char* help, const kvcache::DurationHistogram& source) {
    prometheus::ClientMetric::Histogram& histogram =
        Add(name, help, MetricType::Histogram, {}).histogram;
    uint64_t cumulative = 0;
    for (size_t i = 0; i + 1 < source.counts.size(); ++i) {
      cumulative += source.counts[i];
      const double bound = static_cast<double>(kvcache::DurationHistogram::UpperBoundMs(i)) / 1e3;
      histogram.bucket.push_back({cumulative, bound});
    }
    histogram.bucket.push_back({source.num_samples, std::numeric_limits<double>::infinity()});
    histogram.sample_count = source.num_samples;
    histogram.sample_sum = static_cast<double>(source.sum_ms) / 1e3;
  }

  void StepRows(const EngineStats& stats) {
    prometheus::ClientMetric::Histogram& histogram =
        Add("vllm:iteration_tokens_total", "Tokens computed in a step.", MetricType::Histogram, {})
            .histogram;
    uint64_t cumulative = 0;
    for (size_t i = 0; i < kStepRowBounds.size(); ++i) {
      cumulative += stats.num_steps_by_rows[i];
      histogram.bucket.push_back({cumulative, static_cast<double>(kStepRowBounds[i])});
    }
    histogram.bucket.push_back({stats.num_steps, std::numeric_limits<double>::infinity()});
    histogram.sample_count = stats.num_steps;
    histogram.sample_sum = static_cast<double>(stats.num_computed_tokens);
  }

 private:
  // Metrics of one name and other labels stand together.
  ClientMetric& Add(const char* name, const char* help, MetricType type, Labels labels) {
    if (families_.empty() || families_.back().name != name) {
      families_.push_back({name, help, type, {}});
    }
    families_.back().metric.emplace_back();
    families_.back().metric.back().label = std::move(labels);
    return families_.back().metric.back();
  }

  std::vector<MetricFamily>& families_;
};

double Share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

void AddGauges(const EngineStats& stats, const EngineMetricsOptions& options, Families& out) {
  const kvcache::KvCacheStats& cache = stats.cache;
  out.Gauge("vllm:num_requests_running", "Sequences that are being computed.", stats.num_running);
  out.Gauge("vllm:num_requests_waiting", "Sequences that wait.", stats.num_waiting);
  out.Gauge("vllm:num_requests_waiting_by_reason", "Sequences that wait, by reason.",
            stats.num_waiting, {{"reason", "capacity"}});
  out.Gauge("vllm:num_requests_waiting_by_reason", "", 0, {{"reason", "deferred"}});
  const double usage = Share(cache.num_blocks_in_use, cache.num_blocks);
  out.Gauge("vllm:kv_cache_usage_perc", "Share of the blocks that sequences hold, 0 to 1.", usage);
  out.Gauge("vllm:cache_config_info", "The cache's configuration.", 1,
            {{"block_size", fmt::format("{}", options.block_size)},
             {"num_gpu_blocks", fmt::format("{}", cache.num_blocks)}});
  constexpr char kBlocks[] = "Blocks of the KV cache, by state.";
  out.Gauge("octavo:kv_blocks", kBlocks, cache.num_blocks_in_use, {{"state", "used"}});
  out.Gauge("octavo:kv_blocks", kBlocks, cache.num_cached_blocks, {{"state", "cached"}});
  out.Gauge("octavo:kv_blocks", kBlocks, cache.num_free_blocks, {{"state", "free"}});
  out.Gauge("octavo:kv_blocks", kBlocks, cache.num_pinned_idle_blocks, {{"state", "pinned"}});
  out.Gauge("octavo:kv_pins", "Prefixes that are pinned.", cache.num_pins);
  out.Gauge("octavo:swapped_sequences", "Waiting sequences whose K and V are in the swap space.",
            stats.num_swapped);
  if (!options.former_names) return;
  out.Gauge("vllm:gpu_cache_usage_perc", "Former name of kv_cache_usage_perc.", usage);
  out.Gauge("vllm:gpu_prefix_cache_hit_rate", "Prefix hits by queries.",
            Share(stats.num_cached_tokens, stats.num_queried_tokens));
  out.Gauge("vllm:num_requests_swapped", "Former name of octavo:swapped_sequences.",
            stats.num_swapped);
}

void AddCounters(const EngineStats& stats, const EngineMetricsOptions& options, Families& out) {
  const kvcache::KvCacheStats& cache = stats.cache;
  // A request counts once: what a preempted sequence finds again when it comes back is not a hit.
  out.Counter("vllm:prefix_cache_queries_total", "Prompt tokens that were looked up.",
              stats.num_queried_tokens);
  out.Counter("vllm:prefix_cache_hits_total", "Of them, found.", stats.num_cached_tokens);
  out.Counter("vllm:num_preemptions_total", "Sequences that lost their blocks.",
              stats.num_preemptions_recompute + stats.num_preemptions_swap);
  out.Counter("vllm:prompt_tokens_total", "Prompt tokens of admitted requests.",
              stats.num_prompt_tokens);
  constexpr char kBySource[] = "Prompt tokens, by where their K and V came from.";
  out.Counter("vllm:prompt_tokens_by_source_total", kBySource,
              stats.num_prompt_tokens - stats.num_cached_tokens, {{"source", "local_compute"}});
  out.Counter("vllm:prompt_tokens_by_source_total", kBySource, stats.num_cached_tokens,
              {{"source", "local_cache_hit"}});
  out.Counter("vllm:prompt_tokens_by_source_total", kBySource, 0,
              {{"source", "external_kv_transfer"}});
  out.Counter("vllm:prompt_tokens_cached_total", "Prompt tokens that were cached.",
              stats.num_cached_tokens);
  out.Counter("vllm:generation_tokens_total", "Tokens that were chosen.",
              stats.num_generation_tokens);
  for (const FinishReason reason :
       {FinishReason::kStop, FinishReason::kLength, FinishReason::kAbort, FinishReason::kError}) {
    out.Counter("vllm:request_success_total", "Requests that ended, by reason.",
                stats.num_finished[static_cast<size_t>(reason)],
                {{"finished_reason", std::string(FinishReasonName(reason))}});
  }
  out.Counter("octavo:steps_total", "Steps of the engine.", stats.num_steps);
  out.Counter("octavo:computed_tokens_total", "Rows of all steps, recomputed ones too.",
              stats.num_computed_tokens);
  constexpr char kPreemptions[] = "Preemptions, by how the sequence comes back.";
  out.Counter("octavo:preemptions_total", kPreemptions, stats.num_preemptions_recompute,
              {{"mode", "recompute"}});
  out.Counter("octavo:preemptions_total", kPreemptions, stats.num_preemptions_swap,
              {{"mode", "swap"}});
  out.Counter("octavo:kv_evictions_total", "Blocks whose content gave way.", cache.num_evictions);
  out.Counter("octavo:kv_copies_total", "Blocks that were copied.", cache.num_copies);
  out.Counter("octavo:kv_merged_blocks_total", "Duplicates that were given back.",
              cache.num_merged_blocks);
  if (!options.former_names) return;
  out.Counter("vllm:gpu_prefix_cache_queries_total", "Former name of prefix_cache_queries.",
              stats.num_queried_tokens);
  out.Counter("vllm:gpu_prefix_cache_hits_total", "Former name of prefix_cache_hits.",
              stats.num_cached_tokens);
}

}  // namespace

void CollectEngineMetrics(const EngineStats& stats, const EngineMetricsOptions& options,
                          std::vector<MetricFamily>* families) {
  Families out(families);
  AddGauges(stats, options, out);
  AddCounters(stats, options, out);
  out.StepRows(stats);
  if (!options.block_metrics) return;
  const kvcache::ContentDurations& durations = stats.cache.durations;
  out.Durations("vllm:kv_block_lifetime_seconds", "From a block's content to its eviction.",
                durations.lifetime);
  out.Durations("vllm:kv_block_idle_before_evict_seconds", "From the last use to the eviction.",
                durations.idle_before_eviction);
  out.Durations("vllm:kv_block_reuse_gap_seconds", "Between two uses of a block's content.",
                durations.reuse_gap);
}

std::string SerializeMetrics(const std::vector<MetricFamily>& families,
                             const std::string& model_name) {
  return ExposeFamilies(families, {{"model_name", model_name}, {"engine", "0"}});
}

}  // namespace octavo::server
