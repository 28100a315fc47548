#pragma once

// Purpose:    remembers which content was evicted, and when, to explain misses. Nothing is decided
//             by it.
// Ownership:  owns a table of fixed size.
// Threading:  as its owner.
// Invariants: a hash is kept in one set of kWays entries, where the oldest gives way: O(1), no
//             allocation. Content is known by its 64-bit hash alone, which is enough for a hint.

#include <cstdint>
#include <optional>
#include <vector>

namespace octavo::kvcache {

class GhostHistory {
 public:
  static constexpr size_t kWays = 4;

  // Room for at least num_entries evictions.
  explicit GhostHistory(size_t num_entries);

  void Record(uint64_t hash, int64_t now_ms);
  // When it was evicted last; nothing when that is not known.
  std::optional<int64_t> Find(uint64_t hash) const;

 private:
  struct Entry {
    uint64_t hash = 0;
    int64_t evicted_at_ms = 0;
    uint64_t order = 0;  // 0: unused
  };
  size_t FirstOfSet(uint64_t hash) const;

  std::vector<Entry> entries_;  // [num_sets * kWays], num_sets a power of two
  uint64_t order_ = 0;
};

}  // namespace octavo::kvcache
