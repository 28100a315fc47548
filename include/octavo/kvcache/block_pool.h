#pragma once

// Purpose:    who holds which block: N blocks, a free list, a reference count each. Metadata only,
//             no bytes.
// Ownership:  a BlockRef is one reference; a block is in use while there is at least one. When the
//             last one is dropped, the block is free again, unless a BlockRecycler keeps its
//             content. The pool outlives its references (checked) and does not move.
// Threading:  the engine thread only.
// Invariants: kFree      = ref_count 0, on the free list, no content;
//             kEvictable = ref_count 0, not on it; the recycler keeps its content;
//             kInUse     = ref_count >= 1, not on it; more than one reference makes a block
//                          shared, that is read-only.
//             Allocate: kFree -> kInUse, or else kEvictable -> kInUse (evicted); the last Drop:
//             kInUse -> kFree or kEvictable; Share keeps kInUse. num_free + num_evictable +
//             num_in_use = num_blocks. All single-block operations are O(1), beside what the
//             recycler does, and allocate no memory. The free list is last in, first out; at the
//             start it yields ids 0, 1, 2, ... (contracts/kv-cache.md#free-order).

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "octavo/kvcache/block_id.h"
#include "octavo/kvcache/block_recycler.h"
#include "octavo/kvcache/integrity.h"

namespace octavo::kvcache {

enum class BlockState { kFree, kEvictable, kInUse };

class BlockPool;
class BlockTable;
class PrefixCache;

// One reference to one block, or none (default-made, moved from or reset).
class BlockRef {
 public:
  BlockRef() = default;
  ~BlockRef() { Reset(); }
  BlockRef(BlockRef&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), id_(other.id_) {}
  BlockRef& operator=(BlockRef&& other) noexcept;
  BlockRef(const BlockRef&) = delete;
  BlockRef& operator=(const BlockRef&) = delete;

  explicit operator bool() const { return pool_ != nullptr; }
  // REQUIRES for these three: holds a block.
  BlockId id() const;
  bool is_shared() const;
  // A second reference to the same block.
  [[nodiscard]] BlockRef Share() const;

  // Gives the reference back, if there is one.
  void Reset() {
    if (pool_ != nullptr) GiveBack();
  }

 private:
  friend class BlockPool;
  friend class BlockTable;  // checks that a reference is of the table's own pool
  BlockRef(BlockPool* pool, BlockId id) : pool_(pool), id_(id) {}
  void GiveBack();

  BlockPool* pool_ = nullptr;
  BlockId id_;
};

class BlockPool {
 public:
  // REQUIRES: num_blocks < kNoBlock.
  explicit BlockPool(uint32_t num_blocks);
  // REQUIRES: no reference is left.
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // Who decides which blocks keep their content without a reference. At most once, before the first
  // reference is dropped; it outlives all references.
  void SetRecycler(BlockRecycler* recycler);

  // A block with one reference and no content: a free one, or else one whose content the recycler
  // gives up. Nothing when the pool is exhausted, which the caller expects and handles.
  [[nodiscard]] std::optional<BlockRef> Allocate();

  // num_blocks free blocks with consecutive ids, lowest run first; nothing when there is no such
  // run. Evicts nothing. For the contiguous baseline: O(num_blocks of the pool), allocates the
  // vector. REQUIRES: num_blocks >= 1.
  [[nodiscard]] std::optional<std::vector<BlockRef>> AllocateContiguous(uint32_t num_blocks);

  uint32_t num_blocks() const { return static_cast<uint32_t>(state_.blocks.size()); }
  uint32_t num_free() const { return state_.num_free; }
  uint32_t num_evictable() const { return state_.num_evictable; }
  uint32_t num_in_use() const { return num_blocks() - num_free() - num_evictable(); }
  // How many blocks Allocate could give now.
  uint32_t num_available() const;
  // REQUIRES: id is one of this pool's.
  uint32_t ref_count(BlockId id) const;
  BlockState block_state(BlockId id) const;

  // Counts and links against each other. Pure, O(num_blocks), never aborts.
  IntegrityReport CheckIntegrity() const;
  // Also: every reference is an entry of one of `tables`, which are all the holders there are. A
  // table of another pool is a finding.
  IntegrityReport CheckIntegrity(std::span<const BlockTable* const> tables) const;

  const BlockPoolState& state() const { return state_; }

 private:
  friend class BlockRef;
  friend class PrefixCache;  // turns a block that it found by its content into a reference
  // A reference to a block with content. REQUIRES: kEvictable or kInUse.
  BlockRef Reference(BlockId id);
  // Moves one block from kEvictable to kFree; false when the recycler gives up none.
  bool EvictToFreeList();
  std::optional<BlockId> TakeFromRecycler();

  void Retain(BlockId id);
  void Drop(BlockId id);
  BlockRef TakeFree(BlockId id);
  void PushFree(uint32_t block);
  void UnlinkFree(uint32_t block);

  BlockPoolState state_;
  BlockRecycler* recycler_ = nullptr;
};

}  // namespace octavo::kvcache
