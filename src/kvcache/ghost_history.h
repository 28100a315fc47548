#pragma once

// Purpose:    remembers which content was evicted, and when, to explain misses. Nothing is decided
//             by it.
// Ownership:  owns a ring of fixed size.
// Threading:  as its owner.
// Invariants: holds the last evictions, as many as it has room for. Recording is one store behind
//             the one before: eviction is hot, explaining is not. Content is known by its 64-bit
//             hash alone, which is enough for a hint.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace octavo::kvcache {

class GhostHistory {
 public:
  explicit GhostHistory(size_t num_entries);

  void Record(uint64_t hash, int64_t now_ms);

  struct Query {
    uint64_t hash = 0;
    std::optional<int64_t> evicted_at_ms;  // the answer: when it was evicted last, if known
  };
  // Answers all of them in one pass: O(entries + queries).
  void Find(std::span<Query> queries) const;

 private:
  struct Entry {
    uint64_t hash = 0;
    int64_t evicted_at_ms = 0;
  };
  std::vector<Entry> entries_;  // [num_entries], a ring
  uint64_t num_recorded_ = 0;   // the next one goes to this, modulo num_entries
  size_t next_ = 0;
};

}  // namespace octavo::kvcache
