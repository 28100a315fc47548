#pragma once

// Purpose:    tells for each block of a prompt whether it is cached, and if not, why.
// Threading:  pure function of the cache's state.
// Invariants: looks at one root alone.

#include <cstdint>
#include <span>
#include <vector>

#include "kvcache/prefix_cache.h"
#include "octavo/kvcache/explanation.h"

namespace octavo::kvcache {

// One record for each block that `tokens` touch. `root_hash`: of the root's key, for what was
// evicted from a root that is no longer known. root: kNoRoot when it is not.
std::vector<BlockExplanation> ExplainPrefix(const PrefixCache& cache, uint32_t root,
                                            uint64_t root_hash, std::span<const int32_t> tokens);

}  // namespace octavo::kvcache
