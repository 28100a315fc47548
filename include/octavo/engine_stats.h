#pragma once

// Purpose:    what an engine is doing, and what it has done since it was made.
// Ownership:  plain values.
// Threading:  plain data; a snapshot is of one moment between two steps.
// Invariants: counters never fall; a token, a hit or an end is counted once.

#include <array>
#include <cstddef>
#include <cstdint>

#include "octavo/kvcache/kv_cache_stats.h"

namespace octavo {

inline constexpr std::array<uint32_t, 13> kStepRowBounds = {1,   8,    16,   32,   64,   128,  256,
                                                            512, 1024, 2048, 4096, 8192, 16384};

struct EngineStats {
  // Now.
  uint32_t num_running = 0;  // sequences
  uint32_t num_waiting = 0;
  uint32_t num_swapped = 0;     // of the waiting
  int64_t num_held_tokens = 0;  // with K and V, summed over the running sequences
  int64_t num_held_blocks = 0;  // entries of their block tables: a shared block counts for each
  uint32_t num_swap_blocks = 0;
  uint32_t num_free_swap_blocks = 0;

  // Since the start.
  uint64_t num_steps = 0;
  // Steps by their rows: bucket i counts those of at most kStepRowBounds[i], the last one the rest.
  std::array<uint64_t, 14> num_steps_by_rows{};
  uint64_t num_prompt_tokens = 0;      // of admitted requests, each once
  uint64_t num_queried_tokens = 0;     // of them, looked up in the cache
  uint64_t num_cached_tokens = 0;      // of them, found in the cache
  uint64_t num_computed_tokens = 0;    // rows of all steps, recomputed ones too
  uint64_t num_generation_tokens = 0;  // chosen; a step of a beam search counts one
  uint64_t num_preemptions_recompute = 0;
  uint64_t num_preemptions_swap = 0;
  std::array<uint64_t, 5> num_finished{};  // requests, by FinishReason of their first completion

  kvcache::KvCacheStats cache;
};

}  // namespace octavo
