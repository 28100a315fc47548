#pragma once

// Purpose:    what an EngineCore is made of, resolved: every figure is set.
// Ownership:  plain values.
// Threading:  plain data.
// Invariants: limits.block_size_tokens == cache.block_size_tokens.

#include <cstdint>

#include "engine/scheduling/step_plan.h"
#include "octavo/engine_options.h"
#include "octavo/kvcache/kv_cache_manager.h"
#include "octavo/kvcache/root_key.h"
#include "octavo/profiler.h"

namespace octavo::engine {

struct CoreOptions {
  SchedulerLimits limits;
  kvcache::KvCacheOptions cache;
  KvCacheMode mode = KvCacheMode::kPaged;
  int32_t max_model_len = 0;    // tokens
  kvcache::RootKey cache_root;  // the fields that all requests share
  bool by_priority = false;
  uint32_t num_swap_blocks = 0;
  double seconds_per_swapped_block = 0.0;  // out and in again
  // The most that the log-probabilities of one request may come to.
  int64_t max_report_bytes = int64_t{1} << 30;
  bool check_integrity = false;  // after every step
  Profiler* profiler = nullptr;  // attached; null: nothing is recorded

  // Sequences share blocks: forks and cached prefixes.
  bool shares_blocks() const { return mode == KvCacheMode::kPaged; }
  uint32_t blocks_per_context() const {
    return static_cast<uint32_t>((max_model_len + cache.block_size_tokens - 1) /
                                 cache.block_size_tokens);
  }
};

}  // namespace octavo::engine
