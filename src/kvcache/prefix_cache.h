#pragma once

// Purpose:    the content that blocks keep: the tree that finds it, the order in which it gives
//             way, the pins that hold it back, and what is known of content that is gone.
// Ownership:  owns tree, policy, pins and history. Installs itself as the pool's recycler; both
//             live as long as their KvCacheManager. References are the pool's.
// Threading:  as its manager.
// Invariants: a block that is in use and has content has a parent that is in use (or a root). A
//             block without a reference has content if and only if it is kEvictable; it is in the
//             policy's order, or else pinned. A block has no more reuses than its parent. Nothing
//             here allocates memory but a new root.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kvcache/eviction_policy.h"
#include "kvcache/ghost_history.h"
#include "kvcache/pin_registry.h"
#include "kvcache/prefix_tree.h"
#include "octavo/kvcache/block_pool.h"
#include "octavo/kvcache/block_recycler.h"
#include "octavo/kvcache/block_table.h"
#include "octavo/kvcache/kv_cache_manager.h"

namespace octavo::kvcache {

class PrefixCache final : public BlockRecycler {
 public:
  PrefixCache(BlockPool* pool, const KvCacheOptions& options);
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  bool is_enabled() const { return is_enabled_; }
  const PrefixTree& tree() const { return tree_; }
  const GhostHistory& history() const { return history_; }
  const PinRegistry& pins() const { return pins_; }
  const EvictionPolicy& policy() const { return *policy_; }
  void SetNow(int64_t now_ms);

  // ---- Roots, retained by sequences.
  uint32_t RetainRoot(std::string_view key);
  void RetainRoot(uint32_t root);
  void ReleaseRoot(uint32_t root);
  uint64_t num_sequences() const { return num_sequences_; }

  // ---- Lookup.
  // Calls visit(block) for each whole block of `tokens` that is cached, from the first on; returns
  // the block that holds some of the tokens after them. kNoRoot holds nothing.
  template <class Visit>
  PrefixTree::Closest Walk(uint32_t root, std::span<const int32_t> tokens, Visit visit) const;
  // An idle tail all of whose tokens were found: whoever asks may go on writing in it.
  bool CanTakeOver(const PrefixTree::Closest& closest) const;
  // Nobody holds it, and it may be evicted.
  bool IsRecyclable(uint32_t block) const;

  // ---- Use of content.
  // A reference to a block that was found.
  BlockRef Hit(uint32_t block);
  // A sequence that holds this block was forked, or it was hit. Whoever comes to a block has been
  // counted for its parent, but for a sequence that rolls back to what it published itself and
  // computes the rest again: that is no reuse, and is not counted past the parent's.
  void CountReuse(uint32_t block);

  // ---- Writing.
  // A sequence that holds `block` may write at its positions from `offset` on: nobody else holds
  // it or relies on what is there.
  bool CanWrite(uint32_t block, int32_t offset) const;
  // The same of the position that the table's next token goes to.
  bool MustCopyTail(const BlockTable& table) const;
  // It will: content from `offset` on is withdrawn. REQUIRES: CanWrite.
  void PrepareWrite(uint32_t block, int32_t offset);
  // `block` holds `tokens` now, after the content of `parent`. Returns the block by which this
  // content is known: `block`, or an equal sealed one, and then `block` has no content.
  uint32_t Publish(uint32_t block, ParentId parent, std::span<const int32_t> tokens);

  // ---- Pins.
  int64_t Pin(uint32_t root, std::span<const int32_t> tokens, int64_t ttl_ms, PinId* pin);
  bool Unpin(PinId pin);
  void YieldPins(uint32_t num_blocks);
  void EndAllPins();

  // The part of the statistics that is known here.
  void AddTo(KvCacheStats& stats) const;

  // ---- BlockRecycler.
  bool Keep(BlockId block) override;
  uint32_t Evict() override;
  uint32_t num_recyclable() const override { return policy_->size(); }

  // For KvCacheManager::Reset.
  bool EvictToFreeList() { return pool_->EvictToFreeList(); }

 private:
  struct Usage {
    int64_t published_at_ms = 0;
    int64_t last_use_ms = 0;  // publication or hit
    int64_t idle_since_ms = 0;
    uint32_t num_reuses = 0;
  };
  bool IsIdle(uint32_t block) const { return pool_->ref_count(BlockId(block)) == 0; }
  void MakeRecyclable(uint32_t block);
  void UncoverPath(uint32_t last_block);

  BlockPool* pool_;
  bool is_enabled_;
  uint32_t max_pinned_blocks_;
  PrefixTree tree_;
  std::unique_ptr<EvictionPolicy> policy_;
  PinRegistry pins_;
  GhostHistory history_;
  std::vector<Usage> usage_;  // [num_blocks]
  int64_t now_ms_ = 0;
  uint64_t num_sequences_ = 0;  // that retain a root
  KvCacheStats counted_;        // counters and histograms only
};

template <class Visit>
PrefixTree::Closest PrefixCache::Walk(uint32_t root, std::span<const int32_t> tokens,
                                      Visit visit) const {
  if (root == kNoRoot) return {};
  const auto block_size = static_cast<size_t>(tree_.state().block_size_tokens);
  ParentId parent = ParentOfRoot(root);
  while (!tokens.empty()) {
    const size_t length = std::min(block_size, tokens.size());
    const PrefixTree::Closest closest = tree_.FindClosest(parent, tokens.first(length));
    if (static_cast<size_t>(closest.num_tokens) < block_size) return closest;
    visit(closest.block);
    parent = ParentOfBlock(closest.block);
    tokens = tokens.subspan(block_size);
  }
  return {};
}

}  // namespace octavo::kvcache
