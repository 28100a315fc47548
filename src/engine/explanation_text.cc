#include "engine/explanation_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace octavo::engine {
namespace {

using kvcache::BlockExplanation;
using kvcache::BlockMatch;
using kvcache::MissReason;

std::string DescribeReason(const BlockExplanation& block, int64_t now_ms) {
  switch (block.reason) {
    case MissReason::kNone:
      return "";
    case MissReason::kNeverSeen:
      return "never seen";
    case MissReason::kEvicted: {
      const int64_t age_ms = std::max<int64_t>(now_ms - block.evicted_at_ms, 0);
      return fmt::format("evicted {:.1f} s ago", 1e-3 * static_cast<double>(age_ms));
    }
    case MissReason::kTokensDiffer:
      return fmt::format("tokens differ at position {}", block.differs_at);
    case MissReason::kCachingDisabled:
      return "caching disabled";
  }
  return "";
}

// Nothing of the block is missing: a hit, or a short last block that is cached as far as the prompt
// goes.
bool IsWhole(const BlockExplanation& block) {
  return block.match == BlockMatch::kHit ||
         (block.match == BlockMatch::kPartial && block.reason == MissReason::kNone);
}

}  // namespace

std::string_view BlockMatchName(BlockMatch match) {
  switch (match) {
    case BlockMatch::kHit:
      return "hit";
    case BlockMatch::kPartial:
      return "partial";
    case BlockMatch::kMiss:
      return "miss";
  }
  return "";
}

std::string_view MissReasonName(MissReason reason) {
  switch (reason) {
    case MissReason::kNone:
      return "";
    case MissReason::kNeverSeen:
      return "never_seen";
    case MissReason::kEvicted:
      return "evicted";
    case MissReason::kTokensDiffer:
      return "tokens_differ";
    case MissReason::kCachingDisabled:
      return "caching_disabled";
  }
  return "";
}

std::string DescribeBlock(const BlockExplanation& block, int64_t now_ms) {
  const std::string reason = DescribeReason(block, now_ms);
  const std::string_view match = BlockMatchName(IsWhole(block) ? BlockMatch::kHit : block.match);
  return reason.empty() ? std::string(match) : fmt::format("{}: {}", match, reason);
}

ExplanationSummary Summarize(std::span<const BlockExplanation> blocks) {
  ExplanationSummary summary;
  for (const BlockExplanation& block : blocks) {
    summary.num_cached_tokens += block.num_cached_tokens;
    summary.num_hit_blocks += IsWhole(block);
    summary.num_partial_blocks += block.match == BlockMatch::kPartial && !IsWhole(block);
    summary.num_missed_blocks += block.match == BlockMatch::kMiss;
  }
  return summary;
}

int64_t ExplanationClockMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace octavo::engine
