#include "kvcache/ghost_history.h"

#include <algorithm>
#include <bit>

namespace octavo::kvcache {

GhostHistory::GhostHistory(size_t num_entries)
    : entries_(std::bit_ceil(std::max(num_entries, kWays))) {}

size_t GhostHistory::FirstOfSet(uint64_t hash) const {
  return hash & (entries_.size() - 1) & ~(kWays - 1);
}

void GhostHistory::Record(uint64_t hash, int64_t now_ms) {
  Entry* const set = &entries_[FirstOfSet(hash)];
  Entry* target = set;
  for (Entry* entry = set; entry < set + kWays; ++entry) {
    if (entry->order != 0 && entry->hash == hash) {
      target = entry;
      break;
    }
    if (entry->order < target->order) target = entry;
  }
  *target = {hash, now_ms, ++order_};
}

std::optional<int64_t> GhostHistory::Find(uint64_t hash) const {
  const Entry* const set = &entries_[FirstOfSet(hash)];
  for (const Entry* entry = set; entry < set + kWays; ++entry) {
    if (entry->order != 0 && entry->hash == hash) return entry->evicted_at_ms;
  }
  return std::nullopt;
}

}  // namespace octavo::kvcache
