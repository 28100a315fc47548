#include "octavo/kvcache/block_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <utility>

#include "kvcache/allocation_counter.h"

namespace octavo::kvcache {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int32_t kBlockSize = 16;

TEST(BlockTableTest, CapacityGrowsByWholeBlocksAsTokensNeedThem) {
  BlockPool pool(4);
  BlockTable table(&pool, kBlockSize, 4);

  ASSERT_TRUE(table.EnsureCapacity(1));
  EXPECT_EQ(table.capacity_tokens(), 16);
  ASSERT_TRUE(table.EnsureCapacity(16));
  EXPECT_EQ(table.capacity_tokens(), 16);
  ASSERT_TRUE(table.EnsureCapacity(17));

  EXPECT_EQ(table.capacity_tokens(), 32);
  EXPECT_THAT(table.block_ids(), ElementsAre(0, 1));
  EXPECT_EQ(table.num_tokens(), 0);
}

TEST(BlockTableTest, CapacityIsGrantedEntirelyOrNotAtAll) {
  BlockPool pool(3);
  BlockTable first(&pool, kBlockSize, 3);
  BlockTable second(&pool, kBlockSize, 3);
  ASSERT_TRUE(first.EnsureCapacity(20));
  ASSERT_TRUE(second.EnsureCapacity(3));

  EXPECT_FALSE(second.EnsureCapacity(17));
  EXPECT_FALSE(second.EnsureCapacity(std::numeric_limits<int64_t>::max()));

  EXPECT_THAT(second.block_ids(), ElementsAre(2));
  EXPECT_TRUE(second.EnsureCapacity(16));
}

TEST(BlockTableTest, TruncationDropsTheBlocksThatHoldNothingOfTheRest) {
  BlockPool pool(4);
  BlockTable table(&pool, kBlockSize, 4);
  ASSERT_TRUE(table.EnsureCapacity(64));
  table.Advance(50);

  table.Truncate(33);
  EXPECT_EQ(table.num_blocks(), 3u);
  EXPECT_EQ(table.num_tokens(), 33);

  table.Truncate(32);
  EXPECT_EQ(table.num_blocks(), 2u);
  EXPECT_EQ(pool.num_free(), 2u);

  table.Truncate(0);
  EXPECT_THAT(table.block_ids(), IsEmpty());
  EXPECT_EQ(pool.num_free(), 4u);
}

TEST(BlockTableTest, TruncatingToTheCurrentLengthReturnsSpareCapacity) {
  BlockPool pool(4);
  BlockTable table(&pool, kBlockSize, 4);
  ASSERT_TRUE(table.EnsureCapacity(64));
  table.Advance(10);

  table.Truncate(10);

  EXPECT_EQ(table.capacity_tokens(), 16);
  EXPECT_EQ(table.num_tokens(), 10);
}

TEST(BlockTableTest, AReleasedTablesBlocksAreReusedInTheirOwnOrder) {
  BlockPool pool(4);
  {
    BlockTable table(&pool, kBlockSize, 4);
    ASSERT_TRUE(table.EnsureCapacity(48));
  }
  BlockTable next(&pool, kBlockSize, 4);

  ASSERT_TRUE(next.EnsureCapacity(48));

  EXPECT_THAT(next.block_ids(), ElementsAre(0, 1, 2));
}

TEST(BlockTableTest, TwoTablesHoldOneSharedBlockAndTheAuditCountsBoth) {
  BlockPool pool(4);
  BlockTable first(&pool, kBlockSize, 4);
  BlockTable second(&pool, kBlockSize, 4);
  ASSERT_TRUE(first.EnsureCapacity(16));

  second.Append(first.block(0).Share());
  ASSERT_TRUE(second.EnsureCapacity(32));

  const std::array<const BlockTable*, 2> tables = {&first, &second};
  EXPECT_TRUE(pool.CheckIntegrity(tables).ok()) << pool.CheckIntegrity(tables).ToString();
  EXPECT_THAT(second.block_ids(), ElementsAre(0, 1));
  EXPECT_TRUE(first.block(0).is_shared());
}

TEST(BlockTableTest, TheAuditFindsAReferenceHeldOutsideTheTables) {
  BlockPool pool(4);
  BlockTable table(&pool, kBlockSize, 4);
  ASSERT_TRUE(table.EnsureCapacity(16));
  const BlockRef loose = table.block(0).Share();

  const std::array<const BlockTable*, 1> tables = {&table};

  EXPECT_EQ(pool.CheckIntegrity(tables).ToString(),
            "block 0 has 2 references, the block tables hold 1");
}

TEST(BlockTableTest, TheAuditFindsATableOfAnotherPool) {
  BlockPool pool(1);
  BlockPool other_pool(1);
  const BlockTable table(&other_pool, kBlockSize, 1);

  const std::array<const BlockTable*, 1> tables = {&table};

  EXPECT_EQ(pool.CheckIntegrity(tables).ToString(), "a block table is of another pool");
}

TEST(BlockTableTest, AContiguousRunFillsATableWithConsecutiveIds) {
  BlockPool pool(8);
  BlockTable other(&pool, kBlockSize, 8);
  ASSERT_TRUE(other.EnsureCapacity(16));
  BlockTable table(&pool, kBlockSize, 8);

  auto run = pool.AllocateContiguous(3);
  ASSERT_TRUE(run.has_value());
  for (BlockRef& block : *run) table.Append(std::move(block));

  EXPECT_THAT(table.block_ids(), ElementsAre(1, 2, 3));
}

TEST(BlockTableTest, MovingATableMovesItsBlocksAndTokens) {
  BlockPool pool(4);
  BlockTable source(&pool, kBlockSize, 4);
  ASSERT_TRUE(source.EnsureCapacity(20));
  source.Advance(20);
  BlockTable target(&pool, kBlockSize, 4);
  ASSERT_TRUE(target.EnsureCapacity(32));

  target = std::move(source);
  const BlockTable last = std::move(target);

  EXPECT_THAT(last.block_ids(), ElementsAre(0, 1));
  EXPECT_EQ(last.num_tokens(), 20);
  EXPECT_EQ(pool.num_in_use(), 2u);
}

TEST(BlockTableTest, GrowingAndShrinkingWithinTheReserveAllocatesNothing) {
  BlockPool pool(64);
  BlockTable table(&pool, kBlockSize, 64);
  const size_t before = NumAllocations();

  for (int round = 0; round < 10; ++round) {
    for (int64_t token = 0; token < 64 * kBlockSize; ++token) {
      if (!table.EnsureCapacity(token + 1)) break;
      table.Advance(1);
    }
    table.Truncate(0);
  }

  EXPECT_EQ(NumAllocations(), before);
}

TEST(BlockTableDeathTest, TokensBeyondTheCapacityAreABug) {
  BlockPool pool(1);
  BlockTable table(&pool, kBlockSize, 1);
  ASSERT_TRUE(table.EnsureCapacity(16));
  table.Advance(10);

  EXPECT_DEATH(table.Advance(7), "do not fit");
  EXPECT_DEATH(table.Truncate(11), "a length that it has");
}

TEST(BlockTableDeathTest, ABlockOfAnotherPoolIsABug) {
  BlockPool pool(1);
  BlockPool other_pool(1);
  BlockTable table(&pool, kBlockSize, 1);

  EXPECT_DEATH(table.Append(*other_pool.Allocate()), "another pool");
  EXPECT_DEATH(table.Append(BlockRef()), "another pool");
}

}  // namespace
}  // namespace octavo::kvcache
