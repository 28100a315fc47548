#pragma once

// Purpose:    one sequence's hold on the KV cache: its block table, and its place among the cached
//             content.
// Ownership:  move-only; owns one reference for each table entry, and one to its root. Destroying
//             it gives everything back: there is no other way to release, so none can be forgotten
//             or done twice. Its manager outlives it (checked).
// Threading:  as its manager.
// Invariants: num_tokens() positions are stored (committed); capacity_tokens() are held. Made by
//             KvCacheManager::NewSequence or Fork; a default-made or moved-from one holds nothing
//             and may only be destroyed, assigned to or asked for its sizes (0).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "octavo/kvcache/block_table.h"

namespace octavo::kvcache {

class PrefixCache;

class CachedSequence {
 public:
  CachedSequence() = default;
  ~CachedSequence();
  CachedSequence(CachedSequence&& other) noexcept;
  CachedSequence& operator=(CachedSequence&& other) noexcept;
  CachedSequence(const CachedSequence&) = delete;
  CachedSequence& operator=(const CachedSequence&) = delete;

  int64_t num_tokens() const;
  int64_t capacity_tokens() const;
  size_t num_blocks() const { return block_ids().size(); }
  // [num_blocks], for kernels; valid until the sequence next changes.
  std::span<const uint32_t> block_ids() const;
  // The next write must copy a block first: others hold it or rely on its content.
  bool tail_is_shared() const;
  // Gives every block back, the last first; the sequence is empty and can be used again.
  void Reset();

 private:
  friend class KvCacheManager;
  void Leave();

  PrefixCache* cache_ = nullptr;  // null: holds nothing
  uint32_t root_ = 0;             // of the cache's tree
  std::optional<BlockTable> table_;
};

}  // namespace octavo::kvcache
