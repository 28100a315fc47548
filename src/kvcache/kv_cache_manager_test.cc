#include "octavo/kvcache/kv_cache_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kvcache/manager_fixture.h"

namespace octavo::kvcache {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class KvCacheManagerTest : public ManagerFixture {};

std::vector<int32_t> Joined(std::vector<int32_t> first, const std::vector<int32_t>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// ---- Hits.

TEST_F(KvCacheManagerTest, WhatOneSequenceCommittedAnotherFindsWhileTheFirstStillRuns) {
  Make(8);
  const CachedSequence first = Run(Tokens(0, 24));

  CachedSequence second = manager_->NewSequence(kRoot);
  EXPECT_TRUE(manager_->Acquire(second, Tokens(0, 24), 23, &copies_));

  EXPECT_EQ(second.num_tokens(), 23);
  EXPECT_THAT(Ids(second), ElementsAre(0, 1, 3));
  ASSERT_EQ(copies_.size(), 1u);
  EXPECT_EQ(copies_[0].source, BlockId(2));
  EXPECT_EQ(copies_[0].destination, BlockId(3));
  EXPECT_EQ(copies_[0].num_tokens, 7);
}

TEST_F(KvCacheManagerTest, WhatIsReservedButNotCommittedIsNotFound) {
  Make(8);
  CachedSequence first = manager_->NewSequence(kRoot);
  ASSERT_TRUE(manager_->Reserve(first, 16, &copies_));

  EXPECT_EQ(NumCached(Tokens(0, 16)), 0);

  manager_->Commit(first, Tokens(0, 16), 12);
  EXPECT_EQ(NumCached(Tokens(0, 16)), 12);
}

TEST_F(KvCacheManagerTest, TwinsUnderAPolynomialHashShareTheirFirstFourTokensOnly) {
  Make(8);
  std::vector<int32_t> x = Tokens(2000, 8);
  std::vector<int32_t> ascending = x;
  ascending[4] += 31;
  ascending[5] -= 1;
  std::vector<int32_t> descending = x;
  descending[4] += 1;
  descending[5] -= 31;
  std::vector<int32_t> swapped = x;
  std::swap(swapped[2], swapped[6]);
  const CachedSequence first = Run(Joined(x, {7}));

  EXPECT_EQ(NumCached(Joined(ascending, {7})), 4);
  EXPECT_EQ(NumCached(Joined(descending, {7})), 4);
  EXPECT_EQ(NumCached(Joined(swapped, {7})), 2);
  EXPECT_EQ(NumCached(Joined(x, {7})), 9);
}

TEST_F(KvCacheManagerTest, TheClosestOfManyChildrenIsFound) {
  Make(64);
  std::vector<CachedSequence> sequences;
  for (int32_t i = 0; i < 30; ++i) {
    sequences.push_back(Run({1, 2, 3, 10 * i, 10 * i + 1, 10 * i + 2, 10 * i + 3, 10 * i + 4}));
  }

  EXPECT_EQ(NumCached({1, 2, 3, 170, 171, 172, 999}), 6);
  EXPECT_EQ(NumCached({1, 2, 3, 175}), 3);
  EXPECT_EQ(NumCached({1, 9}), 1);
  EXPECT_EQ(NumCached({9}), 0);
}

TEST_F(KvCacheManagerTest, OneRootNeverSeesAnother) {
  Make(8);
  const std::vector<int32_t> tokens = Tokens(0, 16);
  const CachedSequence first = Run(tokens, "salt 1");

  EXPECT_EQ(NumCached(tokens, "salt 1"), 16);
  EXPECT_EQ(NumCached(tokens, "salt 2"), 0);
  const CachedSequence second = Run(tokens, "salt 2");
  EXPECT_EQ(manager_->stats().num_blocks_in_use, 4u);
}

TEST_F(KvCacheManagerTest, AStreamOfUnlimitedRootsLeavesNothingBehind) {
  Make(8);
  for (int i = 0; i < 1000; ++i) {
    const CachedSequence sequence = Run(Tokens(0, 12), "salt " + std::to_string(i));
    EXPECT_LE(manager_->stats().num_roots, 5u);
  }
  EXPECT_EQ(manager_->stats().num_roots, 4u);  // the content of the last four
}

// ---- Tails and copies.

TEST_F(KvCacheManagerTest, AFinishedTailIsTakenOverWithoutACopyWhenAllOfItMatches) {
  Make(8);
  std::optional<CachedSequence> first = Run(Tokens(0, 12));
  first.reset();

  CachedSequence second = manager_->NewSequence(kRoot);
  EXPECT_TRUE(manager_->Acquire(second, Tokens(0, 14), 13, &copies_));
  Compute(second, Tokens(0, 14));

  EXPECT_THAT(copies_, IsEmpty());
  EXPECT_THAT(Ids(second), ElementsAre(0, 1));
}

TEST_F(KvCacheManagerTest, ATailThatIsStillWrittenIsCopied) {
  Make(8);
  CachedSequence first = Run(Tokens(0, 12));

  CachedSequence second = manager_->NewSequence(kRoot);
  EXPECT_TRUE(manager_->Acquire(second, Tokens(0, 14), 13, &copies_));
  Compute(first, Tokens(0, 13));

  ASSERT_EQ(copies_.size(), 1u);
  EXPECT_EQ(copies_[0].num_tokens, 4);
  EXPECT_THAT(Ids(first), ElementsAre(0, 1));
  EXPECT_THAT(Ids(second), ElementsAre(0, 2));
}

TEST_F(KvCacheManagerTest, AForksFirstWriterCopiesTheTailAndTheLastOneWritesInPlace) {
  Make(8);
  CachedSequence first = Run(Tokens(0, 12));
  CachedSequence second = manager_->Fork(first);
  EXPECT_TRUE(first.tail_is_shared());
  EXPECT_EQ(manager_->NumBlocksToReserve(second, 13), 1u);

  Compute(second, Joined(Tokens(0, 12), {100}));

  ASSERT_EQ(copies_.size(), 1u);
  EXPECT_EQ(copies_[0].source, BlockId(1));
  EXPECT_EQ(copies_[0].num_tokens, 4);
  EXPECT_FALSE(first.tail_is_shared());
  EXPECT_EQ(manager_->NumBlocksToReserve(first, 13), 0u);
  Compute(first, Joined(Tokens(0, 12), {200}));
  EXPECT_EQ(copies_.size(), 1u);
  EXPECT_EQ(manager_->stats().num_copies, 1u);
}

TEST_F(KvCacheManagerTest, DuplicatesMergeWhenTheyAreFullAndGoOnUnderOneParent) {
  Make(8);
  CachedSequence first = manager_->NewSequence(kRoot);
  CachedSequence second = manager_->NewSequence(kRoot);
  for (CachedSequence* sequence : {&first, &second}) {
    ASSERT_TRUE(manager_->Reserve(*sequence, 20, &copies_));
  }
  manager_->Commit(first, Tokens(0, 20), 20);
  manager_->Commit(second, Tokens(0, 20), 20);

  EXPECT_THAT(Ids(first), ElementsAre(0, 1, 2));
  EXPECT_THAT(Ids(second), ElementsAre(0, 1, 5));  // the tails are not full yet
  EXPECT_EQ(manager_->stats().num_merged_blocks, 2u);

  Compute(first, Tokens(0, 24));
  Compute(second, Tokens(0, 24));
  EXPECT_THAT(Ids(second), ElementsAre(0, 1, 2));
  EXPECT_EQ(manager_->stats().num_free_blocks, 5u);
}

TEST_F(KvCacheManagerTest, ASourceOfAPendingCopyMayBeGivenAwayBecauseCopiesComeFirst) {
  Make(3);
  { const CachedSequence old = Run(Tokens(0, 8)); }  // block 0, idle
  CachedSequence reader = manager_->NewSequence(kRoot);
  ASSERT_TRUE(manager_->Acquire(reader, Tokens(0, 6), 6, &copies_));  // copies 0 -> 1

  CachedSequence writer = manager_->NewSequence(kRoot);
  ASSERT_TRUE(manager_->Reserve(writer, 16, &copies_));

  EXPECT_THAT(Ids(writer), ElementsAre(2, 0));  // evicted, and still the source of the first copy
  ASSERT_EQ(copies_.size(), 1u);
  EXPECT_EQ(copies_[0].source, BlockId(0));
}

TEST_F(KvCacheManagerTest, WhenTheSourceItselfMustGiveWayItsTokensStayWhereTheyAre) {
  Make(1);
  { const CachedSequence old = Run(Tokens(0, 8)); }

  CachedSequence reader = manager_->NewSequence(kRoot);
  EXPECT_TRUE(manager_->Acquire(reader, Tokens(0, 8), 7, &copies_));

  EXPECT_EQ(reader.num_tokens(), 7);
  EXPECT_THAT(Ids(reader), ElementsAre(0));
  EXPECT_THAT(copies_, IsEmpty());
}

// ---- Rollback.

TEST_F(KvCacheManagerTest, ARollbackIntoABlockOfItsOwnCutsItWhenTheSequenceWritesOn) {
  Make(8);
  CachedSequence sequence = Run(Tokens(0, 16));

  manager_->Truncate(sequence, 11);
  EXPECT_EQ(NumCached(Tokens(0, 16)), 16);  // nothing is overwritten yet
  std::vector<int32_t> other = Tokens(0, 11);
  other.push_back(500);
  Compute(sequence, other);

  EXPECT_THAT(copies_, IsEmpty());
  EXPECT_EQ(NumCached(Tokens(0, 16)), 11);
  EXPECT_EQ(NumCached(other), 12);
}

TEST_F(KvCacheManagerTest, ARollbackIntoContentThatOthersFollowOrPinnedWritesIntoACopy) {
  Make(8);
  CachedSequence sequence = Run(Tokens(0, 24));
  manager_->Truncate(sequence, 11);  // block 2 stays cached behind block 1
  EXPECT_TRUE(sequence.tail_is_shared());
  Compute(sequence, Joined(Tokens(0, 11), {500}));
  EXPECT_EQ(copies_.size(), 1u);
  EXPECT_EQ(NumCached(Tokens(0, 24)), 24);

  CachedSequence pinned = Run(Tokens(1000, 8), "pinned");
  PinId pin;
  ASSERT_EQ(manager_->Pin("pinned", Tokens(1000, 8), 1000, &pin), 8);
  manager_->Truncate(pinned, 3);
  Compute(pinned, Joined(Tokens(1000, 3), {500}));
  EXPECT_EQ(copies_.size(), 2u);
  EXPECT_EQ(NumCached(Tokens(1000, 8), "pinned"), 8);
}

// ---- Exhaustion and books.

TEST_F(KvCacheManagerTest, WhatDoesNotFitChangesNothing) {
  Make(3);
  CachedSequence sequence = Run(Tokens(0, 12));
  const CachedSequence fork = manager_->Fork(sequence);

  EXPECT_FALSE(manager_->Reserve(sequence, 17, &copies_));  // a copy and a block, one is there

  EXPECT_THAT(copies_, IsEmpty());
  EXPECT_THAT(Ids(sequence), ElementsAre(0, 1));
  EXPECT_EQ(manager_->num_available_blocks(), 1u);
  EXPECT_TRUE(manager_->Reserve(sequence, 16, &copies_));
}

TEST_F(KvCacheManagerTest, ManyShortRequestsLeaveNoBlockBehindAtAnyBoundary) {
  for (const bool enable : {true, false}) {
    KvCacheOptions options;
    options.num_blocks = 16;
    options.block_size_tokens = kBlockSize;
    options.enable_prefix_caching = enable;
    manager_.emplace(options);
    for (int32_t i = 0; i < 2000; ++i) {
      std::vector<int32_t> tokens = Tokens(10 * i, 1 + static_cast<size_t>(i * 7 % 48));
      CachedSequence sequence = Run(tokens);
      for (int32_t output = 0; output < 1 + i % 20; ++output) {
        tokens.push_back(output);
        Compute(sequence, tokens);
      }
    }
    const KvCacheStats stats = manager_->stats();
    EXPECT_EQ(stats.num_blocks_in_use, 0u);
    EXPECT_EQ(stats.num_free_blocks + stats.num_cached_blocks, 16u);
    EXPECT_EQ(stats.num_cached_blocks > 0, enable);
    manager_->Reset();
    EXPECT_EQ(manager_->stats().num_free_blocks, 16u);
  }
}

TEST_F(KvCacheManagerTest, AnEvictedBlockIsFoundByItsNewContentOnly) {
  Make(4);
  { const CachedSequence k1 = Run(Tokens(0, 12)); }  // a full block and a tail of four
  { const CachedSequence other = Run(Tokens(1000, 32)); }

  EXPECT_EQ(NumCached(Tokens(0, 12)), 0);
  EXPECT_EQ(NumCached(Tokens(1000, 32)), 32);
  EXPECT_TRUE(manager_->CheckIntegrity().ok());
}

TEST_F(KvCacheManagerTest, APartlyFilledBlockIsNeverKnownForMoreThanWasCommitted) {
  Make(4);
  { const CachedSequence stopped = Run(Tokens(0, 5)); }

  EXPECT_EQ(NumCached(Tokens(0, 8)), 5);
}

TEST_F(KvCacheManagerTest, LookupsAreCountedOncePerAcquire) {
  Make(8);
  const CachedSequence first = Run(Tokens(0, 16));
  const CachedSequence second = Run(Joined(Tokens(0, 12), {7, 7, 7, 7}));
  static_cast<void>(manager_->Match(kRoot, Tokens(0, 16), 16));

  EXPECT_EQ(manager_->stats().num_query_tokens, 32u);
  EXPECT_EQ(manager_->stats().num_hit_tokens, 12u);
}

TEST_F(KvCacheManagerTest, TimesAreCountedInBucketsThatDouble) {
  Make(2);
  { const CachedSequence sequence = Run(Tokens(0, 8)); }
  manager_->SetNow(5);
  { const CachedSequence sequence = Run(Joined(Tokens(0, 8), Tokens(50, 8))); }
  manager_->SetNow(1005);
  EXPECT_THAT(EvictionOrder(2), ElementsAre(1, 0));

  const KvCacheStats stats = manager_->stats();
  EXPECT_EQ(stats.durations.idle_before_reuse.counts[3], 1u);  // 5 ms
  EXPECT_EQ(stats.durations.reuse_gap.counts[3], 1u);
  EXPECT_EQ(stats.durations.idle_before_eviction.counts[10], 2u);  // 1000 ms, twice
  EXPECT_EQ(stats.durations.lifetime.sum_ms, 1000 + 1005);
}

TEST_F(KvCacheManagerTest, WithPrefixCachingOffNothingIsFoundAndRunsAreContiguous) {
  KvCacheOptions options;
  options.num_blocks = 4;
  options.block_size_tokens = kBlockSize;
  options.enable_prefix_caching = false;
  manager_.emplace(options);
  CachedSequence run = manager_->NewSequence(kRoot);

  EXPECT_TRUE(manager_->ReserveContiguous(run, 3));
  EXPECT_FALSE(manager_->ReserveContiguous(run = manager_->NewSequence(kRoot), 5));
  const CachedSequence sequence = Run(Tokens(0, 16));

  EXPECT_EQ(NumCached(Tokens(0, 16)), 0);
}

TEST_F(KvCacheManagerTest, AMovedSequenceKeepsItsBlocksAndTheOldOneHoldsNone) {
  Make(4);
  CachedSequence first = Run(Tokens(0, 16));

  CachedSequence second = std::move(first);
  EXPECT_EQ(second.num_tokens(), 16);
  EXPECT_EQ(first.num_tokens(), 0);  // NOLINT(bugprone-use-after-move): this is what is tested
  second = manager_->NewSequence(kRoot);

  EXPECT_EQ(manager_->stats().num_blocks_in_use, 0u);
}

TEST(KvCacheManagerDeathTest, AManagerOutlivesItsSequences) {
  EXPECT_DEATH(
      {
        CachedSequence survivor;
        KvCacheManager manager({.num_blocks = 4});
        survivor = manager.NewSequence("root");
      },
      "a manager outlives its sequences");
}

TEST(KvCacheManagerDeathTest, ASequenceOfAnotherManagerIsRefused) {
  KvCacheManager manager({.num_blocks = 4});
  KvCacheManager other({.num_blocks = 4});
  CachedSequence sequence = other.NewSequence("root");
  EXPECT_DEATH(manager.Truncate(sequence, 0), "of another manager");
}

}  // namespace
}  // namespace octavo::kvcache
