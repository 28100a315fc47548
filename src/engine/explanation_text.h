#pragma once

// Purpose:    a cache explanation in words: for `octavo explain`, `octavo run --explain` and
//             whoever else shows one.
// Ownership:  values.
// Threading:  any.
// Invariants: names are stable, for scripts; sentences are for people and may change.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "octavo/kvcache/explanation.h"

namespace octavo::engine {

// "hit", "partial", "miss".
std::string_view BlockMatchName(kvcache::BlockMatch match);
// "never_seen", "evicted", "tokens_differ", "caching_disabled"; "" for kNone.
std::string_view MissReasonName(kvcache::MissReason reason);

// "hit", "partial: tokens differ at position 23", "miss: evicted 1.5 s ago". A short last block is
// a hit, here and in the summary, if it is cached as far as the prompt goes. `now_ms`: by the clock
// of evicted_at_ms.
std::string DescribeBlock(const kvcache::BlockExplanation& block, int64_t now_ms);

struct ExplanationSummary {
  int64_t num_cached_tokens = 0;
  int64_t num_hit_blocks = 0;
  int64_t num_partial_blocks = 0;
  int64_t num_missed_blocks = 0;
};
ExplanationSummary Summarize(std::span<const kvcache::BlockExplanation> blocks);

// The clock that an engine's explanations go by, in ms.
int64_t ExplanationClockMs();

}  // namespace octavo::engine
