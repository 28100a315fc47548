#include "engine/memory_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "model/workspace.h"

namespace octavo::engine {
namespace {

kernels::KvDtype StorageOf(KvCacheDtype dtype) {
  switch (dtype) {
    case KvCacheDtype::kFloat32:
      return kernels::KvDtype::kFloat32;
    case KvCacheDtype::kBFloat16:
      return kernels::KvDtype::kBFloat16;
    case KvCacheDtype::kInt8:
      return kernels::KvDtype::kInt8;
    case KvCacheDtype::kAuto:
    case KvCacheDtype::kFloat16:
      return kernels::KvDtype::kFloat16;
  }
  return kernels::KvDtype::kFloat16;
}

kvcache::KvCacheSpec SpecOf(const model::ModelConfig& config, kernels::KvDtype dtype,
                            int32_t block_size_tokens) {
  return {.num_layers = config.num_layers,
          .num_kv_heads = config.num_kv_heads,
          .head_dim = config.head_dim,
          .bytes_per_element = kvstore::BytesPerElement(dtype),
          .block_size_tokens = block_size_tokens,
          .scale_bytes = kvstore::ScaleBytes(dtype)};
}

// All of it exactly: the largest counts have no float64 of their own, and would be rounded beyond.
int64_t ShareOf(int64_t bytes, double share) {
  return share >= 1.0 ? bytes : static_cast<int64_t>(static_cast<double>(bytes) * share);
}

// Everything but the KV cache, for a given context.
MemoryUsage FixedUsage(const PlanInputs& inputs, int32_t max_model_len) {
  MemoryUsage usage;
  usage[MemoryTag::kWeights] = inputs.weight_bytes;
  usage[MemoryTag::kTokenizer] = inputs.tokenizer_bytes;
  usage[MemoryTag::kActivations] = model::Workspace::PlannedBytes(
      inputs.config,
      {inputs.max_rows, inputs.max_rows, max_model_len, inputs.num_threads, inputs.products});
  usage[MemoryTag::kScratch] =
      int64_t{kMaxLogitsRows} * inputs.config.vocab_size * static_cast<int64_t>(sizeof(float));
  return usage;
}

class Planner {
 public:
  Planner(const PlanInputs& inputs, const CacheOptions& options)
      : inputs_(inputs),
        limit_bytes_(ShareOf(inputs.memory_bytes, options.gpu_memory_utilization)),
        swap_bytes_(options.swap_space_bytes),
        dtype_(StorageOf(options.dtype)),
        spec_(SpecOf(inputs.config, dtype_, options.block_size)) {}

  Status Validate() const {
    if (swap_bytes_ > limit_bytes_) {
      return Status::InvalidArgument(
          fmt::format("the swap space is {} bytes, but the memory limit is {} bytes", swap_bytes_,
                      limit_bytes_));
    }
    return spec_.Validate();
  }
  int64_t BytesPerBlock() const { return spec_.BytesPerBlock().value_or(INT64_MAX); }

  // Whole blocks of the swap space.
  int64_t SwapBytes() const { return swap_bytes_ / BytesPerBlock() * BytesPerBlock(); }
  // The bytes that are left for the block pool beside everything else.
  int64_t KvBudget(int32_t max_model_len) const {
    return limit_bytes_ - FixedUsage(inputs_, max_model_len).total() - SwapBytes();
  }
  bool Fits(int32_t max_model_len, std::optional<int64_t> kv_bytes) const {
    const int64_t budget = KvBudget(max_model_len);
    if (kv_bytes && *kv_bytes > budget) return false;
    return spec_.NumBlocksForTokens(max_model_len) <=
           std::max<int64_t>(kv_bytes.value_or(budget), 0) / BytesPerBlock();
  }
  // The longest context up to `wanted` that fits; 0 if not even one token does.
  int32_t LongestContext(int32_t wanted, std::optional<int64_t> kv_bytes) const {
    int32_t low = 0;
    int32_t high = wanted;
    while (low < high) {
      const int32_t middle = low + (high - low + 1) / 2;
      if (Fits(middle, kv_bytes)) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }

  Status TooLittle(int32_t wanted, int32_t fits, std::optional<int64_t> kv_bytes) const {
    const int64_t needed_kv = spec_.NumBlocksForTokens(wanted) * BytesPerBlock();
    const int64_t fixed = FixedUsage(inputs_, wanted).total();
    const std::string formula = fmt::format(
        "K and V of {} tokens need {} bytes ({}, in blocks of {}), the swap space {} bytes, "
        "everything else {} bytes",
        wanted, needed_kv, TokenFormula(), spec_.block_size_tokens, SwapBytes(), fixed);
    const std::string available =
        kv_bytes ? fmt::format("kv_cache_memory_bytes is {} and the memory limit {} bytes",
                               *kv_bytes, limit_bytes_)
                 : fmt::format("the memory limit is {} bytes", limit_bytes_);
    const int32_t without = LongestContext(wanted, std::nullopt);
    const bool pool_is_too_large = without > 0 && kv_bytes && *kv_bytes > KvBudget(without);
    const std::string advice =
        pool_is_too_large
            ? fmt::format(
                  "kv_cache_memory_bytes may be at most {}, for a max_model_len of at most {}",
                  KvBudget(without) / BytesPerBlock() * BytesPerBlock(), without)
            : fmt::format("the longest max_model_len that fits is {} (a block takes {} bytes)",
                          fits, BytesPerBlock());
    return Status::ResourceExhausted(fmt::format("{}, but {}; {}", formula, available, advice));
  }

  Result<EnginePlan> Finish(int32_t max_model_len, std::optional<int64_t> kv_bytes) const {
    const int64_t num_blocks =
        kv_bytes ? *kv_bytes / BytesPerBlock() : DefaultBlocks(max_model_len);
    const Result<kvstore::KvLayout> layout = kvstore::KvLayout::Create(spec_, dtype_, num_blocks);
    if (!layout.ok()) return layout.status();

    EnginePlan plan;
    plan.layout = *layout;
    if (SwapBytes() > 0) {
      const Result<kvstore::KvLayout> swap =
          kvstore::KvLayout::Create(spec_, dtype_, SwapBytes() / BytesPerBlock());
      if (!swap.ok()) return swap.status();
      plan.swap_layout = *swap;
    }
    plan.max_model_len = max_model_len;
    plan.memory.planned = FixedUsage(inputs_, max_model_len);
    plan.memory.planned[MemoryTag::kKvCache] =
        static_cast<int64_t>(layout->arena_bytes + plan.swap_layout.arena_bytes);
    plan.memory.limit_bytes = limit_bytes_;
    plan.memory.kv_bytes_per_token = spec_.BytesPerToken().value_or(0);
    plan.memory.kv_block_size_tokens = spec_.block_size_tokens;
    plan.memory.kv_num_blocks = num_blocks;
    plan.memory.kv_capacity_tokens = num_blocks * spec_.block_size_tokens;
    return plan;
  }

 private:
  // How the bytes of a token come about, in words.
  std::string TokenFormula() const {
    const std::string product =
        fmt::format("2 x {} layers x {} KV heads x ", spec_.num_layers, spec_.num_kv_heads);
    if (spec_.scale_bytes == 0) {
      return fmt::format("{}{} x {} bytes a token", product, spec_.head_dim,
                         spec_.bytes_per_element);
    }
    const int64_t vectors = 2 * int64_t{spec_.num_layers} * spec_.num_kv_heads;
    const int64_t unpadded =
        vectors * (int64_t{spec_.head_dim} * spec_.bytes_per_element + spec_.scale_bytes);
    const int64_t padding = spec_.BytesPerToken().value_or(unpadded) - unpadded;
    return fmt::format("{}({} x {} + {}) bytes a token{}", product, spec_.head_dim,
                       spec_.bytes_per_element, spec_.scale_bytes,
                       padding == 0 ? "" : fmt::format(" and {} of padding", padding));
  }
  int64_t DefaultBlocks(int32_t max_model_len) const {
    const int64_t affordable = std::min(kDefaultKvBytes, KvBudget(max_model_len)) / BytesPerBlock();
    const int64_t context = spec_.NumBlocksForTokens(max_model_len);
    return std::max(context, std::min(affordable, kDefaultKvContexts * context));
  }

  const PlanInputs& inputs_;
  int64_t limit_bytes_;
  int64_t swap_bytes_;
  kernels::KvDtype dtype_;
  kvcache::KvCacheSpec spec_;
};

}  // namespace

Result<EnginePlan> PlanMemory(const PlanInputs& inputs, const ModelOptions& model_options,
                              const CacheOptions& cache_options) {
  const Planner planner(inputs, cache_options);
  if (Status status = planner.Validate(); !status.ok()) return status;

  const int32_t context_length = inputs.config.context_length;
  if (model_options.max_model_len.value_or(0) > context_length) {
    return Status::InvalidArgument(
        fmt::format("max_model_len is {}, but the model's context is {} tokens",
                    *model_options.max_model_len, context_length));
  }
  const std::optional<int64_t> kv_bytes = cache_options.kv_cache_memory_bytes;
  const int32_t wanted = model_options.max_model_len.value_or(inputs.config.context_length);
  const int32_t fits = planner.LongestContext(wanted, kv_bytes);
  const bool may_shrink = !model_options.max_model_len.has_value();
  if (fits < 1 || (fits < wanted && !may_shrink)) return planner.TooLittle(wanted, fits, kv_bytes);
  return planner.Finish(fits, kv_bytes);
}

int64_t KvBytesPerToken(const model::ModelConfig& config, KvCacheDtype dtype) {
  const int32_t block_size_tokens = CacheOptions().block_size;
  return SpecOf(config, StorageOf(dtype), block_size_tokens).BytesPerToken().value_or(0);
}

int32_t DefaultMaxNumBatchedTokens(const model::ModelConfig& config, bool has_avx512,
                                   int32_t num_threads) {
  constexpr double kSecondsPerStep = 0.5;
  constexpr double kOperationsPerSecondAndThread = 80e9;  // a cautious half of what AVX2 reaches
  constexpr double kAvx512Gain = 2.0;
  constexpr int32_t kSmallest = 16;
  constexpr int32_t kLargest = 512;
  const double inputs_and_outputs =
      2.0 * config.hidden_dim * (config.query_dim() + config.kv_dim()) +
      3.0 * config.hidden_dim * config.ffn_dim;
  const double operations_per_token = 2.0 * config.num_layers * inputs_and_outputs;
  const double operations = kSecondsPerStep * kOperationsPerSecondAndThread *
                            (has_avx512 ? kAvx512Gain : 1.0) * num_threads;
  int32_t tokens = kLargest;
  while (tokens > kSmallest && tokens * operations_per_token > operations) tokens /= 2;
  return tokens;
}

}  // namespace octavo::engine
