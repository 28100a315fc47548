#pragma once

// Purpose:    what a KV cache is worth, as `octavo bench cache` prints: time per token with and
//             without it as the sequence grows, and how much of the reserved memory holds tokens
//             with contiguous reservations and with blocks.
// Ownership:  makes its own engines.
// Threading:  one thread.
// Invariants: both speed columns do the same work on the same tokens; the memory part uses the real
//             block pool and tables.

#include <cstdint>
#include <functional>
#include <vector>

#include "octavo/engine_options.h"
#include "octavo/status.h"

namespace octavo::bench {

struct CacheSpeed {
  int32_t num_tokens = 0;            // context at the measured step
  double cached_tokens_per_s = 0;    // one token computed per step
  double uncached_tokens_per_s = 0;  // the whole sequence recomputed per step
};

struct CacheUtilization {
  int32_t num_sequences = 0;
  int64_t num_tokens = 0;  // of all sequences
  int64_t mean_tokens = 0;
  int32_t reserved_tokens_each = 0;  // what contiguous preallocation reserves per sequence
  double contiguous = 0;             // share of the reserved slots that hold a token, 0..1
  double paged = 0;                  // share of the allocated blocks' slots that hold a token, 0..1
};

// The speeds at each of `lengths` tokens, all of which are checked before any is measured. `base`
// says which model, threads and formats; its cache mode is set here.
Result<std::vector<CacheSpeed>> MeasureCacheSpeed(
    const EngineOptions& base, const std::vector<int32_t>& lengths,
    const std::function<void(const CacheSpeed&)>& on_row);

// A mix of sequences whose lengths run evenly from `shortest` to `longest` tokens.
CacheUtilization MeasureUtilization(int32_t block_size, int32_t num_sequences, int32_t shortest,
                                    int32_t longest);

}  // namespace octavo::bench
