#pragma once

// Purpose:    the bytes of all blocks: the only place where a block id becomes an address.
// Ownership:  owns the arena and its entry in the ledger; the ledger outlives it. Views borrow.
// Threading:  the object is immutable after Create; who may write a block's bytes follows from who
//             holds the block.
// Invariants: the arena is zero-filled (or poisoned); memory that no block has been written to
//             takes no RAM, unless the arena was populated.

#include <cstdint>
#include <span>

#include "base/aligned_memory.h"
#include "base/memory_ledger.h"
#include "kernels/attention.h"
#include "kvstore/kv_layout.h"
#include "octavo/kvcache/block_pool.h"
#include "octavo/status.h"

namespace octavo::kvstore {

enum class InitialFill {
  kZero,
  kPopulated,  // zeros, and every page has its RAM
  kNaN,  // every element (INT8: every scale) a NaN: a test that reads a slot nobody wrote will see
         // it. Touches the whole arena.
};

class KvStore {
 public:
  static Result<KvStore> Create(const KvLayout& layout, base::MemoryLedger& ledger,
                                InitialFill fill = InitialFill::kZero);

  const KvLayout& layout() const { return layout_; }

  // One layer of one sequence, for kernels; valid while the table's ids and the store are.
  // REQUIRES: 0 <= layer < num_layers.
  kernels::PagedKvView View(int32_t layer, std::span<const uint32_t> block_table);

  // Copies all layers of `source` over `destination`. REQUIRES: both < num_blocks, and different.
  void CopyBlock(kvcache::BlockId source, kvcache::BlockId destination);

 private:
  friend void CopyBlockBetween(const KvStore&, kvcache::BlockId, KvStore&, kvcache::BlockId);
  KvStore(const KvLayout& layout, base::AlignedBuffer arena, base::MemoryReservation reservation);

  KvLayout layout_;
  base::AlignedBuffer arena_;  // [num_blocks, num_layers, num_kv_heads]{K, V, scales}
  base::MemoryReservation reservation_;
};

// Copies all layers of a block of `from` over one of `to`. REQUIRES: both stores have the same
// geometry, except for the number of blocks; the blocks are theirs.
void CopyBlockBetween(const KvStore& from, kvcache::BlockId source, KvStore& to,
                      kvcache::BlockId destination);

}  // namespace octavo::kvstore
