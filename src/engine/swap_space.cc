#include "engine/swap_space.h"

#include <utility>

#include "base/checked_math.h"

namespace octavo::engine {

bool SwapSpace::Take(std::span<const uint32_t> block_ids, int64_t num_tokens,
                     int32_t block_size_tokens, SwappedBlocks* swapped,
                     std::vector<BlockMove>* moves) {
  const auto needed = static_cast<size_t>(base::CeilDivide(num_tokens, int64_t{block_size_tokens}));
  if (needed > pool_.num_free()) return false;
  swapped->Reset();
  for (size_t i = 0; i < needed; ++i) {
    kvcache::BlockRef block = *pool_.Allocate();
    moves->push_back({block_ids[i], block.id().value()});
    swapped->blocks.push_back(std::move(block));
  }
  swapped->num_tokens = num_tokens;
  return true;
}

void SwapSpace::ListReturn(const SwappedBlocks& swapped, std::span<const uint32_t> block_ids,
                           int64_t first_token, int32_t block_size_tokens,
                           std::vector<BlockMove>* moves) {
  const auto first = static_cast<size_t>(first_token / block_size_tokens);
  for (size_t i = first; i < swapped.blocks.size(); ++i) {
    moves->push_back({block_ids[i], swapped.blocks[i].id().value()});
  }
}

}  // namespace octavo::engine
