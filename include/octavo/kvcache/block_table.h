#pragma once

// Purpose:    the blocks of one sequence, in order: logical block index -> block, and how many
//             tokens they hold.
// Ownership:  owns one BlockRef for each entry; the pool outlives the table.
// Threading:  the engine thread only.
// Invariants: num_tokens() <= capacity_tokens() = num_blocks() * block_size_tokens();
//             block_ids()[i] is entry i's block.
//             Blocks are dropped last first, so that a released table's first block is the next one
//             allocated. No memory is allocated up to max_blocks entries.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "octavo/kvcache/block_pool.h"

namespace octavo::kvcache {

class BlockTable {
 public:
  // Reserves room for max_blocks entries; more are possible, at the price of an allocation.
  // REQUIRES: IsBlockSize(block_size_tokens).
  BlockTable(BlockPool* pool, int32_t block_size_tokens, size_t max_blocks);
  ~BlockTable();
  BlockTable(BlockTable&& other) noexcept;
  BlockTable& operator=(BlockTable&& other) noexcept;
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;

  // Adds one block at the end. REQUIRES: a reference of this table's pool.
  void Append(BlockRef block);

  // Entry `index` becomes `block`, the reference to the one before is dropped. REQUIRES: index <
  // num_blocks(); a reference of this table's pool.
  void Replace(size_t index, BlockRef block);

  // Allocates blocks until num_tokens positions fit; true if they do. On false nothing has changed
  // (all or nothing).
  [[nodiscard]] bool EnsureCapacity(int64_t num_tokens);

  // Counts num_tokens more positions as stored. REQUIRES: num_tokens >= 0 and they fit the
  // capacity.
  void Advance(int64_t num_tokens);

  // Forgets the positions from num_tokens on, and drops the blocks that hold none of the rest.
  // REQUIRES: 0 <= num_tokens <= num_tokens().
  void Truncate(int64_t num_tokens);

  int64_t num_tokens() const { return num_tokens_; }
  int64_t capacity_tokens() const { return static_cast<int64_t>(ids_.size()) * block_size_tokens_; }
  int32_t block_size_tokens() const { return block_size_tokens_; }
  size_t num_blocks() const { return ids_.size(); }
  const BlockPool* pool() const { return pool_; }

  // REQUIRES: index < num_blocks().
  const BlockRef& block(size_t index) const;
  // [num_blocks()], for kernels; valid until the table next changes.
  std::span<const uint32_t> block_ids() const { return ids_; }

 private:
  void PopBack();

  BlockPool* pool_;
  int32_t block_size_tokens_;
  int64_t num_tokens_ = 0;
  std::vector<BlockRef> refs_;  // [num_blocks]
  std::vector<uint32_t> ids_;   // [num_blocks], ids_[i] = refs_[i].id()
};

}  // namespace octavo::kvcache
