#pragma once

// Purpose:    why a block of a prompt was found in the cache or not, one record for each block.
// Ownership:  values.
// Threading:  plain data.
// Invariants: derived from one root alone: what another root holds reads kNeverSeen.

#include <cstdint>

namespace octavo::kvcache {

enum class BlockMatch { kHit, kPartial, kMiss };

// Why the rest of the block is not cached.
enum class MissReason {
  kNone,          // a hit, or all that the prompt has of this block is cached
  kNeverSeen,     // as far as is known: what was evicted long ago is forgotten
  kEvicted,       // it was cached, and gave way at evicted_at_ms
  kTokensDiffer,  // cached content goes on with another token at differs_at
  kCachingDisabled
};

struct BlockExplanation {
  BlockMatch match = BlockMatch::kMiss;
  int32_t num_cached_tokens = 0;  // leading tokens of this block
  MissReason reason = MissReason::kNone;
  int64_t evicted_at_ms = 0;  // kEvicted: by the manager's clock
  int64_t differs_at = 0;     // kTokensDiffer: the position in the prompt, from 0
};

}  // namespace octavo::kvcache
