#pragma once

// Purpose:    what a BlockPool asks whoever may want to keep the content of blocks that nobody
//             holds: the seam between the pool and a prefix cache.
// Ownership:  the pool points to it.
// Threading:  called by the pool's thread, from inside Allocate and the last Drop of a block.
// Invariants: every block that it keeps is either given up by Evict, once, or referenced again.

#include <cstdint>

#include "octavo/kvcache/block_id.h"

namespace octavo::kvcache {

class BlockRecycler {
 public:
  virtual ~BlockRecycler() = default;

  // The block's last reference is gone. True: its content is kept, and the block is kEvictable.
  virtual bool Keep(BlockId block) = 0;
  // A kept block whose content is given up now; kNoBlock when there is none to give.
  virtual uint32_t Evict() = 0;
  // How many blocks Evict could give one after the other.
  virtual uint32_t num_recyclable() const = 0;
};

}  // namespace octavo::kvcache
