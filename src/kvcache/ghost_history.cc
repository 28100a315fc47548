#include "kvcache/ghost_history.h"

#include <algorithm>

namespace octavo::kvcache {

GhostHistory::GhostHistory(size_t num_entries) : entries_(num_entries) {}

void GhostHistory::Record(uint64_t hash, int64_t now_ms) {
  entries_[next_] = {hash, now_ms};
  if (++next_ == entries_.size()) next_ = 0;
  ++num_recorded_;
}

void GhostHistory::Find(std::span<Query> queries) const {
  if (queries.empty()) return;
  std::vector<Query*> by_hash;
  by_hash.reserve(queries.size());
  for (Query& query : queries) by_hash.push_back(&query);
  const auto hash_of = [](const Query* query) { return query->hash; };
  std::ranges::sort(by_hash, {}, hash_of);

  const size_t num_known = std::min<uint64_t>(num_recorded_, entries_.size());
  for (size_t i = 0; i < num_known; ++i) {
    const Entry& entry = entries_[i];
    for (auto found = std::ranges::lower_bound(by_hash, entry.hash, {}, hash_of);
         found != by_hash.end() && (*found)->hash == entry.hash; ++found) {
      const int64_t known = (*found)->evicted_at_ms.value_or(entry.evicted_at_ms);
      (*found)->evicted_at_ms = std::max(known, entry.evicted_at_ms);
    }
  }
}

}  // namespace octavo::kvcache
