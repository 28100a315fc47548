#pragma once

// Purpose:    the order in which cached content gives way. Mechanism (the pool) and index (the
//             prefix tree) know nothing of it.
// Ownership:  owns its order, sized once; knows blocks by id.
// Threading:  as its owner.
// Invariants: holds exactly the blocks that may be evicted: idle and not pinned. A block enters
//             after all of its idle children and never with more reuses than its parent, and every
//             policy keeps the order child before parent; so the victim never has a child, and the
//             tail of a sequence goes before its head. O(1), no clock, no allocation.

#include <cstdint>
#include <memory>

#include "kvcache/block_lists.h"
#include "octavo/kvcache/kv_cache_manager.h"

namespace octavo::kvcache {

// What a policy may know of a block that becomes idle.
struct EvictionCandidate {
  uint32_t block = kNoBlock;
  uint32_t parent = kNoBlock;  // kNoBlock: the first block of its root
  bool has_children = false;
  // Hits, forks and merges since its content was published, as far as its parent had them too.
  uint32_t num_reuses = 0;
  int64_t position_tokens = 0;  // of its first token
};

class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  virtual void Insert(const EvictionCandidate& candidate) = 0;
  // The block is used again, or pinned. REQUIRES: it was inserted.
  virtual void Remove(uint32_t block) = 0;
  // Takes the block that goes first; kNoBlock: there is none.
  virtual uint32_t PopVictim() = 0;

  uint32_t size() const { return size_; }
  bool holds(uint32_t block) const { return state().links[block].list != kNoList; }
  // The books, for audits: every block that this policy holds is in one of the lists.
  virtual const BlockListsState& state() const = 0;

 protected:
  uint32_t size_ = 0;
};

std::unique_ptr<EvictionPolicy> MakeEvictionPolicy(EvictionPolicyKind kind, uint32_t num_blocks);

}  // namespace octavo::kvcache
