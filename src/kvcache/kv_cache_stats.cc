#include "octavo/kvcache/kv_cache_stats.h"

#include <algorithm>
#include <bit>

namespace octavo::kvcache {

void DurationHistogram::Record(int64_t duration_ms) {
  const auto duration = static_cast<uint64_t>(std::max<int64_t>(duration_ms, 0));
  ++counts[std::min<size_t>(std::bit_width(duration), kNumBuckets - 1)];
  ++num_samples;
  sum_ms += static_cast<int64_t>(duration);
}

}  // namespace octavo::kvcache
