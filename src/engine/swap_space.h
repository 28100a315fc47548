#pragma once

// Purpose:    who holds which block of the swap space: where the K and V of preempted sequences
//             wait.
// Ownership:  SwappedBlocks owns its blocks of the space, and gives them back when it dies.
// Threading:  the engine thread.
// Invariants: all or nothing: a sequence's computed blocks lie in the space as a whole, or not.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/step_executor.h"
#include "octavo/kvcache/block_pool.h"

namespace octavo::engine {

struct SwappedBlocks {
  std::vector<kvcache::BlockRef> blocks;  // [ceil(num_tokens / block size)]
  int64_t num_tokens = 0;

  void Reset() {
    blocks.clear();
    num_tokens = 0;
  }
};

class SwapSpace {
 public:
  explicit SwapSpace(uint32_t num_blocks) : pool_(num_blocks) {}

  uint32_t num_blocks() const { return pool_.num_blocks(); }
  uint32_t num_free() const { return pool_.num_free(); }

  // Takes room for the first num_tokens positions of a table, and lists the moves that fill it.
  // False, and nothing changed, when there is no room.
  [[nodiscard]] bool Take(std::span<const uint32_t> block_ids, int64_t num_tokens,
                          int32_t block_size_tokens, SwappedBlocks* swapped,
                          std::vector<BlockMove>* moves);

  // The moves that bring the positions from `first_token` on back into a table; whole blocks.
  static void ListReturn(const SwappedBlocks& swapped, std::span<const uint32_t> block_ids,
                         int64_t first_token, int32_t block_size_tokens,
                         std::vector<BlockMove>* moves);

  kvcache::IntegrityReport CheckIntegrity() const { return pool_.CheckIntegrity(); }

 private:
  kvcache::BlockPool pool_;
};

}  // namespace octavo::engine
