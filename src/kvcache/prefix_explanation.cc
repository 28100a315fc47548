#include "kvcache/prefix_explanation.h"

#include <algorithm>
#include <optional>

#include "base/checked_math.h"

namespace octavo::kvcache {
namespace {

// The block in which the cached prefix ends: what was found of it, and what comes instead.
BlockExplanation ExplainEnd(const PrefixCache& cache, const PrefixTree::Closest& closest,
                            int64_t first_position, std::span<const int32_t> tokens) {
  BlockExplanation explanation;
  explanation.reason = MissReason::kNeverSeen;
  const auto num_tokens = static_cast<int64_t>(tokens.size());
  if (closest.block == kNoBlock) {
    // Nothing in common with what is cached. Past the first block that is a difference here.
    if (first_position > 0) {
      explanation.reason = MissReason::kTokensDiffer;
      explanation.differs_at = first_position;
    }
    return explanation;
  }
  explanation.match = BlockMatch::kPartial;
  explanation.num_cached_tokens = closest.num_tokens;
  if (closest.num_tokens == num_tokens) {
    explanation.reason = MissReason::kNone;
  } else if (closest.num_tokens < cache.tree().num_tokens(closest.block)) {
    explanation.reason = MissReason::kTokensDiffer;
    explanation.differs_at = first_position + closest.num_tokens;
  }
  return explanation;
}

std::span<const int32_t> BlockOf(std::span<const int32_t> tokens, size_t index, size_t block_size) {
  const size_t first = index * block_size;
  return tokens.subspan(first, std::min(block_size, tokens.size() - first));
}

// Finds whole blocks that were cached once. `tokens`: those of `blocks`, which follow content of
// parent_hash.
void FindEvicted(const GhostHistory& history, uint64_t parent_hash, std::span<const int32_t> tokens,
                 size_t block_size, std::span<BlockExplanation> blocks) {
  std::vector<GhostHistory::Query> queries;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto content = BlockOf(tokens, i, block_size);
    if (content.size() < block_size) break;
    parent_hash = PrefixTree::Hash(parent_hash, content);
    queries.push_back({parent_hash, std::nullopt});
  }
  history.Find(queries);
  for (size_t i = 0; i < queries.size(); ++i) {
    if (!queries[i].evicted_at_ms) continue;
    blocks[i].reason = MissReason::kEvicted;
    blocks[i].evicted_at_ms = *queries[i].evicted_at_ms;
    blocks[i].differs_at = 0;
  }
}

}  // namespace

std::vector<BlockExplanation> ExplainPrefix(const PrefixCache& cache, uint32_t root,
                                            uint64_t root_hash, std::span<const int32_t> tokens) {
  const auto block_size = static_cast<size_t>(cache.tree().state().block_size_tokens);
  const size_t num_blocks = base::CeilDivide(tokens.size(), block_size);
  std::vector<BlockExplanation> blocks;
  blocks.reserve(num_blocks);
  if (!cache.is_enabled()) {
    blocks.resize(num_blocks, {BlockMatch::kMiss, 0, MissReason::kCachingDisabled, 0, 0});
    return blocks;
  }

  uint64_t hash = root_hash;  // of the blocks told so far
  ParentId parent = ParentOfRoot(root);
  const PrefixTree::Closest closest = cache.Walk(root, tokens, [&](uint32_t block) {
    parent = ParentOfBlock(block);
    hash = cache.tree().hash(parent);
    blocks.push_back({BlockMatch::kHit, static_cast<int32_t>(block_size), MissReason::kNone, 0, 0});
  });
  const size_t end = blocks.size();
  const bool has_siblings =
      end > 0 ? cache.tree().has_children(parent.value()) : closest.block != kNoBlock;

  for (size_t i = end; i < num_blocks; ++i) {
    const auto content = BlockOf(tokens, i, block_size);
    if (i == end && has_siblings) {
      blocks.push_back(ExplainEnd(cache, closest, static_cast<int64_t>(i * block_size), content));
    } else {
      blocks.push_back({BlockMatch::kMiss, 0, MissReason::kNeverSeen, 0, 0});
    }
  }
  FindEvicted(cache.history(), hash, tokens.subspan(end * block_size), block_size,
              std::span(blocks).subspan(end));
  return blocks;
}

}  // namespace octavo::kvcache
