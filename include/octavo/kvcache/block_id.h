#pragma once

// Purpose:    the name of a block.
// Ownership:  a value. It grants nothing: a BlockRef is what holds a block.
// Threading:  plain data.
// Invariants: ids of a pool are 0 to num_blocks - 1.

#include <cstdint>

#include "octavo/strong_id.h"

namespace octavo::kvcache {

using BlockId = StrongId<struct BlockIdTag, uint32_t>;

inline constexpr uint32_t kNoBlock = 0xffffffff;  // the end of a list, or none

}  // namespace octavo::kvcache
