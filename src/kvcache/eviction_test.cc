// Which blocks give way, and in which order, as lists of ids.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "kvcache/cost_aware_policy.h"
#include "kvcache/lru_policy.h"
#include "kvcache/manager_fixture.h"

namespace octavo::kvcache {
namespace {

using testing::ElementsAre;

class EvictionTest : public ManagerFixture {};

TEST_F(EvictionTest, BlocksWithoutContentGoFirstAndTheTailOfASequenceBeforeItsHead) {
  Make(6);
  { const CachedSequence sequence = Run(Tokens(0, 24)); }  // blocks 0, 1, 2

  EXPECT_THAT(EvictionOrder(6), ElementsAre(3, 4, 5, 2, 1, 0));
}

TEST_F(EvictionTest, TheSequenceThatEndedFirstGivesWayFirst) {
  Make(6);
  {
    const CachedSequence first = Run(Tokens(0, 16));        // 0, 1
    CachedSequence second = Run(Tokens(100, 16));           // 2, 3
    { const CachedSequence third = Run(Tokens(200, 16)); }  // 4, 5
    second.Reset();
  }

  EXPECT_THAT(EvictionOrder(6), ElementsAre(5, 4, 3, 2, 1, 0));
}

TEST_F(EvictionTest, ContentThatWasNeverReusedGivesWayBeforeContentThatWas) {
  Make(8);
  { const CachedSequence sequence = Run(Tokens(0, 16)); }  // 0, 1
  { const CachedSequence again = Run(Tokens(0, 16)); }     // reuses them
  { const CachedSequence later = Run(Tokens(100, 16)); }   // 2, 3
  { const CachedSequence latest = Run(Tokens(200, 32)); }  // 4, 5, 6, 7

  EXPECT_THAT(EvictionOrder(8), ElementsAre(3, 2, 7, 6, 5, 4, 1, 0));
}

TEST_F(EvictionTest, ReusedContentPastItsShareGivesWayLikeAnyOther) {
  Make(4);  // at most one reused block is preferred
  for (int32_t i = 0; i < 4; ++i) {
    for (int repeat = 0; repeat < 2; ++repeat) {
      const CachedSequence sequence = Run(Tokens(100 * i, 8));
    }
  }

  EXPECT_THAT(EvictionOrder(4), ElementsAre(0, 1, 2, 3));
}

TEST_F(EvictionTest, ContentInUseAndItsParentsNeverGiveWay) {
  Make(4);
  const CachedSequence first = Run(Tokens(0, 16));                              // 0, 1
  { const CachedSequence branch = Run({0, 1, 2, 3, 4, 5, 6, 7, 90, 91, 92}); }  // 0, 2

  EXPECT_EQ(manager_->num_available_blocks(), 2u);
  EXPECT_THAT(EvictionOrder(2), ElementsAre(3, 2));
  CachedSequence other = manager_->NewSequence(kRoot);
  EXPECT_FALSE(manager_->Reserve(other, 24, &copies_));
}

// The block that it merges with was its own.
TEST_F(EvictionTest, AfterARollbackTheSameTokensAgainLeaveTheTailBeforeItsHead) {
  for (const int64_t num_kept : {8, 0}) {
    Make(4);
    {
      CachedSequence sequence = Run(Tokens(0, 16));  // 0, 1
      manager_->Truncate(sequence, num_kept);
      Compute(sequence, Tokens(0, 16));
      EXPECT_EQ(manager_->stats().num_merged_blocks, num_kept == 8 ? 1u : 2u);
    }

    EXPECT_TRUE(manager_->CheckIntegrity().ok()) << manager_->CheckIntegrity().ToString();
    const std::vector<uint32_t> order = EvictionOrder(4);
    EXPECT_THAT(std::vector(order.end() - 2, order.end()), ElementsAre(1, 0));
  }
}

TEST_F(EvictionTest, AfterARollbackIntoABlockTheSameTokensAgainLeaveTheTailBeforeItsHead) {
  Make(12);
  {
    CachedSequence sequence = Run(Tokens(0, 48));  // 0 to 5
    manager_->Truncate(sequence, 20);
    Compute(sequence, Tokens(0, 48));
  }

  EXPECT_TRUE(manager_->CheckIntegrity().ok()) << manager_->CheckIntegrity().ToString();
  const std::vector<uint32_t> order = EvictionOrder(12);
  EXPECT_THAT(std::vector(order.end() - 6, order.end()), ElementsAre(5, 4, 3, 2, 1, 0));
}

TEST_F(EvictionTest, AMergeWithAnothersContentReusesIt) {
  Make(8);
  {
    CachedSequence first = manager_->NewSequence(kRoot);
    CachedSequence second = manager_->NewSequence(kRoot);
    ASSERT_TRUE(manager_->Reserve(first, 16, &copies_));   // 0, 1
    ASSERT_TRUE(manager_->Reserve(second, 16, &copies_));  // 2, 3
    manager_->Commit(first, Tokens(0, 16), 16);
    manager_->Commit(second, Tokens(0, 16), 16);
  }
  { const CachedSequence later = Run(Tokens(100, 16)); }

  EXPECT_EQ(NumCached(Tokens(0, 16)), 16);
  const std::vector<uint32_t> order = EvictionOrder(8);
  EXPECT_THAT(std::vector(order.end() - 2, order.end()), ElementsAre(1, 0));
}

TEST_F(EvictionTest, ACostAwareCacheGivesUpWhatIsCheapToComputeAgain) {
  Make(1056, EvictionPolicyKind::kCostAware);
  { const CachedSequence deep = Run(Tokens(0, 1024 * kBlockSize)); }     // 0 to 1023
  { const CachedSequence flat = Run(Tokens(100000, 32 * kBlockSize)); }  // 1024 to 1055

  // The end of the deep one is dear, and what leads to it cannot be dearer to give up first.
  const std::vector<uint32_t> order = EvictionOrder(1056);
  EXPECT_EQ(order.front(), 1055u);
  EXPECT_EQ(order[31], 1024u);
  EXPECT_EQ(order[32], 1023u);
  EXPECT_EQ(order.back(), 0u);
}

TEST_F(EvictionTest, ACostAwareCacheForgetsWhatWasPopularLongAgo) {
  Make(8, EvictionPolicyKind::kCostAware);
  for (int repeat = 0; repeat < 4; ++repeat) {
    const CachedSequence popular = Run(Tokens(0, 8));
  }
  int32_t others = 0;
  while (NumCached(Tokens(0, 8)) == 8 && others < 1000) {
    ++others;
    const CachedSequence other = Run(Tokens(1000 * others, 16));
  }

  EXPECT_GT(others, 7);    // it outlived several times what the cache holds
  EXPECT_LT(others, 100);  // but not for ever
}

// ---- Pins.

TEST_F(EvictionTest, PinnedContentStaysUntilItIsUnpinned) {
  Make(4);
  { const CachedSequence system_prompt = Run(Tokens(0, 16)); }
  PinId pin;
  EXPECT_EQ(manager_->Pin(kRoot, Tokens(0, 16), 1000, &pin), 16);
  { const CachedSequence other = Run(Tokens(100, 16)); }
  { const CachedSequence other = Run(Tokens(200, 16)); }

  EXPECT_EQ(NumCached(Tokens(0, 16)), 16);
  EXPECT_EQ(manager_->num_available_blocks(), 2u);
  EXPECT_EQ(manager_->stats().num_pinned_idle_blocks, 2u);

  EXPECT_TRUE(manager_->Unpin(pin));
  EXPECT_FALSE(manager_->Unpin(pin));
  EXPECT_THAT(EvictionOrder(4), ElementsAre(2, 3, 1, 0));  // the last sequence held 3, 2
}

TEST_F(EvictionTest, APinEndsWithItsTime) {
  Make(4);
  { const CachedSequence system_prompt = Run(Tokens(0, 16)); }
  PinId pin;
  manager_->SetNow(100);
  EXPECT_EQ(manager_->Pin(kRoot, Tokens(0, 16), 50, &pin), 16);

  manager_->SetNow(149);
  EXPECT_EQ(manager_->num_available_blocks(), 2u);
  manager_->SetNow(150);
  EXPECT_EQ(manager_->num_available_blocks(), 4u);
  EXPECT_FALSE(manager_->Unpin(pin));
}

TEST_F(EvictionTest, PinsEndEachAtItsOwnTime) {
  Make(8, EvictionPolicyKind::kLru, 1.0);
  const std::vector<int64_t> ends_ms = {10, 30, 10, 20};
  std::vector<PinId> pins(ends_ms.size());
  for (size_t i = 0; i < pins.size(); ++i) {
    const std::vector<int32_t> tokens = Tokens(100 * static_cast<int32_t>(i), 16);
    { const CachedSequence sequence = Run(tokens); }
    ASSERT_EQ(manager_->Pin(kRoot, tokens, ends_ms[i], &pins[i]), 16);
  }

  manager_->SetNow(10);
  EXPECT_EQ(manager_->num_available_blocks(), 4u);
  EXPECT_EQ(manager_->stats().num_pins, 2u);
  manager_->SetNow(20);
  EXPECT_EQ(manager_->num_available_blocks(), 6u);
  EXPECT_TRUE(manager_->CheckIntegrity().ok()) << manager_->CheckIntegrity().ToString();
  EXPECT_TRUE(manager_->Unpin(pins[1]));
  EXPECT_EQ(manager_->num_available_blocks(), 8u);
  EXPECT_THAT(EvictionOrder(4), ElementsAre(1, 0, 5, 4));  // the oldest of those that ended at 10
}

// As many as there may be. Removed one by one from the front, they would move 200 GB.
TEST_F(EvictionTest, AsManyPinsAsThereAreBlocksEndTogether) {
  constexpr uint32_t kNumPins = 1 << 17;
  for (const bool by_time : {true, false}) {
    Make(kNumPins);
    { const CachedSequence sequence = Run(Tokens(0, 8)); }
    PinId pin;
    for (uint32_t i = 0; i < kNumPins; ++i) {
      ASSERT_EQ(manager_->Pin(kRoot, Tokens(0, 8), 1000, &pin), 8);
    }

    if (by_time) {
      manager_->SetNow(1000);
    } else {
      manager_->YieldPins(1);
    }
    EXPECT_EQ(manager_->stats().num_pins, 0u);
    EXPECT_EQ(manager_->num_available_blocks(), kNumPins);
  }
}

TEST_F(EvictionTest, PinsCoverNoMoreThanTheirShare) {
  Make(8, EvictionPolicyKind::kLru, 0.25);
  { const CachedSequence sequence = Run(Tokens(0, 32)); }
  PinId pin;

  EXPECT_EQ(manager_->Pin(kRoot, Tokens(0, 32), 1000, &pin), 16);
  PinId second;
  EXPECT_EQ(manager_->Pin(kRoot, Tokens(0, 12), 1000, &second), 12);  // pinned already
  EXPECT_EQ(manager_->Pin("unknown", Tokens(0, 12), 1000, &second), 0);
  EXPECT_EQ(manager_->stats().num_pinned_blocks, 2u);
}

TEST_F(EvictionTest, PinsYieldTheOldestFirst) {
  Make(6, EvictionPolicyKind::kLru, 1.0);
  std::vector<PinId> pins(3);
  for (int32_t i = 0; i < 3; ++i) {
    { const CachedSequence sequence = Run(Tokens(100 * i, 16)); }
    ASSERT_EQ(manager_->Pin(kRoot, Tokens(100 * i, 16), 1000, &pins[static_cast<size_t>(i)]), 16);
  }
  EXPECT_EQ(manager_->num_available_blocks(), 0u);

  manager_->YieldPins(3);

  EXPECT_EQ(manager_->num_available_blocks(), 4u);
  EXPECT_FALSE(manager_->Unpin(pins[0]));
  EXPECT_FALSE(manager_->Unpin(pins[1]));
  EXPECT_TRUE(manager_->Unpin(pins[2]));
}

TEST_F(EvictionTest, APinOfATailFollowsItWhenItIsMerged) {
  Make(8);
  CachedSequence first = Run(Tokens(0, 6));
  PinId pin;
  CachedSequence second = manager_->NewSequence(kRoot);
  ASSERT_TRUE(manager_->Reserve(second, 8, &copies_));
  ASSERT_EQ(manager_->Pin(kRoot, Tokens(0, 6), 1000, &pin), 6);  // the first one's tail, block 0
  manager_->Commit(second, Tokens(0, 8), 8);                     // block 1 is full first

  Compute(first, Tokens(0, 8));  // merged into block 1
  EXPECT_THAT(Ids(first), ElementsAre(1));
  first.Reset();
  second.Reset();

  EXPECT_EQ(manager_->stats().num_pinned_idle_blocks, 1u);
  EXPECT_TRUE(manager_->CheckIntegrity().ok()) << manager_->CheckIntegrity().ToString();
  EXPECT_TRUE(manager_->Unpin(pin));
  EXPECT_EQ(manager_->num_available_blocks(), 8u);
}

TEST_F(EvictionTest, APinnedTailIsNotTakenOver) {
  Make(8);
  { const CachedSequence first = Run(Tokens(0, 6)); }
  PinId pin;
  ASSERT_EQ(manager_->Pin(kRoot, Tokens(0, 6), 1000, &pin), 6);

  const CachedSequence second = Run({0, 1, 2, 3, 4, 5, 77});

  EXPECT_EQ(copies_.size(), 1u);
}

TEST_F(EvictionTest, ResetDropsWhatNobodyHoldsPinnedOrNot) {
  Make(8);
  const CachedSequence running = Run(Tokens(0, 8));
  { const CachedSequence sequence = Run(Tokens(100, 16)); }
  PinId pin;
  ASSERT_EQ(manager_->Pin(kRoot, Tokens(100, 16), 1000, &pin), 16);

  manager_->Reset();

  EXPECT_EQ(manager_->stats().num_free_blocks, 7u);
  EXPECT_EQ(NumCached(Tokens(100, 16)), 0);
  EXPECT_EQ(NumCached(Tokens(0, 8)), 8);
}

// ---- The policies by themselves.

TEST(CostAwarePolicyTest, AMoreValuedChildRaisesItsParent) {
  CostAwarePolicy policy(8);
  const int64_t deep = 64 * CostAwarePolicy::kDoubleCostPosition;

  policy.Insert({.block = 2, .parent = 1, .position_tokens = deep});
  policy.Insert({.block = 1, .has_children = true, .position_tokens = deep - 8});
  policy.Insert({.block = 5, .num_reuses = 2, .position_tokens = 0});

  EXPECT_EQ(policy.PopVictim(), 5u);
  EXPECT_EQ(policy.PopVictim(), 2u);
  EXPECT_EQ(policy.PopVictim(), 1u);
  EXPECT_EQ(policy.PopVictim(), kNoBlock);
}

// Four times the cost is worth as much as two uses, and less than three.
TEST(CostAwarePolicyTest, UsesCountInFullAndCostByItsRoot) {
  CostAwarePolicy policy(8);
  const int64_t fourfold = 3 * CostAwarePolicy::kDoubleCostPosition;
  policy.Insert({.block = 3, .num_reuses = 2});
  policy.Insert({.block = 1, .position_tokens = fourfold});
  policy.Insert({.block = 2, .num_reuses = 1});
  policy.Insert({.block = 4, .position_tokens = fourfold});

  for (const uint32_t block : {1u, 2u, 4u, 3u}) EXPECT_EQ(policy.PopVictim(), block);
}

TEST(CostAwarePolicyTest, TheLargestFiguresHaveAClass) {
  CostAwarePolicy policy(4);
  policy.Insert({.block = 1,
                 .num_reuses = std::numeric_limits<uint32_t>::max(),
                 .position_tokens = int64_t{1} << 38});
  policy.Insert({.block = 2, .num_reuses = 7});

  EXPECT_EQ(policy.PopVictim(), 2u);
  EXPECT_EQ(policy.PopVictim(), 1u);
}

TEST(CostAwarePolicyTest, ABlockWhoseChildrenAreGoneIsWorthWhatItIsWorthItself) {
  CostAwarePolicy policy(8);
  policy.Insert({.block = 2, .parent = 1, .position_tokens = 1'000'000});
  policy.Insert({.block = 1, .has_children = true});
  policy.Remove(1);
  EXPECT_EQ(policy.PopVictim(), 2u);

  policy.Insert({.block = 1});
  policy.Insert({.block = 3, .num_reuses = 1});

  EXPECT_EQ(policy.PopVictim(), 1u);
}

TEST(CostAwarePolicyTest, AnEvictedBlocksWorthDoesNotPassToItsNextContent) {
  CostAwarePolicy policy(8);
  policy.Insert({.block = 1, .num_reuses = 1000});
  EXPECT_EQ(policy.PopVictim(), 1u);

  policy.Insert({.block = 2, .parent = 1});
  policy.Insert({.block = 1, .has_children = true});
  policy.Insert({.block = 3, .num_reuses = 1});

  EXPECT_EQ(policy.PopVictim(), 2u);
  EXPECT_EQ(policy.PopVictim(), 1u);
}

TEST(LruPolicyTest, ARemovedBlockIsNoVictim) {
  LruPolicy policy(4);
  for (uint32_t block = 0; block < 3; ++block) policy.Insert({.block = block});

  policy.Remove(1);

  EXPECT_FALSE(policy.holds(1));
  EXPECT_EQ(policy.PopVictim(), 0u);
  EXPECT_EQ(policy.PopVictim(), 2u);
  EXPECT_EQ(policy.size(), 0u);
}

}  // namespace
}  // namespace octavo::kvcache
