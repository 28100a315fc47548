#pragma once

// Purpose:    a manager for scenario tests, with an engine's steps in one call.
// Ownership:  owns the manager; sequences must die before the fixture.
// Threading:  as its manager.
// Invariants: blocks of 8 tokens.

#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <string_view>
#include <vector>

#include "octavo/kvcache/kv_cache_manager.h"

namespace octavo::kvcache {

class ManagerFixture : public testing::Test {
 protected:
  static constexpr int32_t kBlockSize = 8;
  static constexpr std::string_view kRoot = "model";

  void Make(uint32_t num_blocks, EvictionPolicyKind eviction = EvictionPolicyKind::kLru,
            double max_pinned_share = 0.5) {
    KvCacheOptions options;
    options.num_blocks = num_blocks;
    options.block_size_tokens = kBlockSize;
    options.max_blocks_per_sequence = num_blocks;
    options.eviction = eviction;
    options.max_pinned_share = max_pinned_share;
    manager_.emplace(options);
  }

  // count tokens: first, first + 1, ...
  static std::vector<int32_t> Tokens(int32_t first, size_t count) {
    std::vector<int32_t> tokens(count);
    std::iota(tokens.begin(), tokens.end(), first);
    return tokens;
  }

  static std::vector<uint32_t> Ids(const CachedSequence& sequence) {
    return {sequence.block_ids().begin(), sequence.block_ids().end()};
  }

  // Reserves and commits all of `tokens`.
  void Compute(CachedSequence& sequence, const std::vector<int32_t>& tokens) {
    const auto length = static_cast<int64_t>(tokens.size());
    ASSERT_TRUE(manager_->Reserve(sequence, length, &copies_));
    manager_->Commit(sequence, tokens, length);
  }

  // A sequence that has found what it can and computed the rest.
  CachedSequence Run(const std::vector<int32_t>& tokens, std::string_view root = kRoot) {
    CachedSequence sequence = manager_->NewSequence(root);
    EXPECT_TRUE(manager_->Acquire(sequence, tokens, static_cast<int64_t>(tokens.size()), &copies_));
    Compute(sequence, tokens);
    return sequence;
  }

  int64_t NumCached(const std::vector<int32_t>& tokens, std::string_view root = kRoot) const {
    return manager_->Match(root, tokens, static_cast<int64_t>(tokens.size())).num_tokens;
  }

  // The blocks that give way, in their order: as many as are allocated for tokens never seen.
  std::vector<uint32_t> EvictionOrder(uint32_t num_blocks) {
    CachedSequence sequence = manager_->NewSequence("another");
    EXPECT_TRUE(manager_->Reserve(sequence, int64_t{num_blocks} * kBlockSize, &copies_));
    return Ids(sequence);
  }

  std::optional<KvCacheManager> manager_;
  std::vector<BlockCopy> copies_;
};

}  // namespace octavo::kvcache
