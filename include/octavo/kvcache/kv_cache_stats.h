#pragma once

// Purpose:    what a KvCacheManager has counted, as plain data.
// Ownership:  values.
// Threading:  plain data.
// Invariants: num_free_blocks + num_cached_blocks + num_pinned_idle_blocks + num_blocks_in_use =
//             num_blocks. Counters start at the manager's construction and never fall. Times are by
//             the manager's clock (SetNow).

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace octavo::kvcache {

// Counts of durations in buckets that double: bucket 0 is [0, 1) ms, bucket i is [2^(i-1), 2^i) ms,
// the last one has no end.
struct DurationHistogram {
  static constexpr size_t kNumBuckets = 28;  // 2^26 ms = 18.6 hours

  std::array<uint64_t, kNumBuckets> counts{};
  uint64_t num_samples = 0;
  int64_t sum_ms = 0;

  void Record(int64_t duration_ms) {
    const auto duration = static_cast<uint64_t>(std::max<int64_t>(duration_ms, 0));
    ++counts[std::min<size_t>(static_cast<size_t>(std::bit_width(duration)), kNumBuckets - 1)];
    ++num_samples;
    sum_ms += static_cast<int64_t>(duration);
  }
  // The end of a bucket, excluded; the last one's would be infinite.
  static int64_t UpperBoundMs(size_t bucket) { return int64_t{1} << bucket; }
};

// How long content stays, and how long it waits for its next use.
struct ContentDurations {
  DurationHistogram lifetime;              // of content, from its publication to its eviction
  DurationHistogram idle_before_reuse;     // from the last reference's end to a hit
  DurationHistogram idle_before_eviction;  // from the last reference's end
  DurationHistogram reuse_gap;             // between a hit and the use before it
};

struct KvCacheStats {
  uint32_t num_blocks = 0;
  uint32_t num_free_blocks = 0;         // no content
  uint32_t num_cached_blocks = 0;       // content that nobody holds and that may be evicted
  uint32_t num_pinned_idle_blocks = 0;  // content that nobody holds, pinned
  uint32_t num_blocks_in_use = 0;       // held by sequences, pinned or not
  uint32_t num_pinned_blocks = 0;       // pinned, held or not
  uint32_t num_pins = 0;
  uint32_t num_roots = 0;  // known: used by a sequence or by content

  uint64_t num_query_tokens = 0;   // looked up by Acquire, up to its max_tokens
  uint64_t num_hit_tokens = 0;     // found by it
  uint64_t num_evictions = 0;      // blocks whose content gave way
  uint64_t num_copies = 0;         // block copies asked for
  uint64_t num_merged_blocks = 0;  // duplicates given back

  ContentDurations durations;
};

}  // namespace octavo::kvcache
