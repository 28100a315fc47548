#pragma once

// Purpose:    what an engine will hold in memory, by purpose, before it takes any of it; and how
//             long a context that allows.
// Ownership:  plain values.
// Threading:  pure functions of their arguments.
// Invariants: an accepted plan's total is at most its limit, and its blocks hold one sequence of
//             max_model_len tokens.

#include <cstdint>
#include <optional>

#include "kernels/matmul.h"
#include "kvstore/kv_layout.h"
#include "model/model_config.h"
#include "octavo/engine_options.h"
#include "octavo/memory_plan.h"
#include "octavo/status.h"

namespace octavo::engine {

struct PlanInputs {
  model::ModelConfig config;
  int64_t weight_bytes = 0;
  int64_t tokenizer_bytes = 0;
  int64_t memory_bytes = 0;  // min(RAM, cgroup limit, address space)
  int32_t max_rows = 0;      // tokens per step
  int32_t num_threads = 0;
  kernels::Products products = kernels::Products::kInt8;
};

struct EnginePlan {
  MemoryPlan memory;
  kvstore::KvLayout layout;
  kvstore::KvLayout swap_layout;  // num_blocks 0 = no swap space
  int32_t max_model_len = 0;      // tokens
};

// The block pool's size where nobody has chosen one, as far as memory allows: the smaller of the
// two, and at least one context.
inline constexpr int64_t kDefaultKvBytes = int64_t{2} << 30;
inline constexpr int64_t kDefaultKvContexts = 16;

// Rows of logits that the engine keeps at once.
inline constexpr int32_t kMaxLogitsRows = 16;

// kResourceExhausted names what is needed, what is there, and the longest context that would fit,
// or the largest pool where the given one leaves no room.
Result<EnginePlan> PlanMemory(const PlanInputs& inputs, const ModelOptions& model_options,
                              const CacheOptions& cache_options);

// K and V of one token in all layers, in blocks of the default size; 0 if it overflows.
int64_t KvBytesPerToken(const model::ModelConfig& config, KvCacheDtype dtype);

// The prefill chunk that keeps a full step under about half a second, from the products' operations
// per token and the threads: a power of two in [16, 512].
int32_t DefaultMaxNumBatchedTokens(const model::ModelConfig& config, bool has_avx512,
                                   int32_t num_threads);

}  // namespace octavo::engine
