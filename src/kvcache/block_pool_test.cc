#include "octavo/kvcache/block_pool.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace octavo::kvcache {
namespace {

std::vector<uint32_t> Ids(const std::vector<BlockRef>& refs) {
  std::vector<uint32_t> ids;
  for (const BlockRef& ref : refs) ids.push_back(ref.id().value());
  return ids;
}

std::vector<BlockRef> AllocateMany(BlockPool& pool, int count) {
  std::vector<BlockRef> refs;
  for (int i = 0; i < count; ++i) refs.push_back(*pool.Allocate());
  return refs;
}

TEST(BlockPoolTest, AFreshPoolYieldsIdsInAscendingOrder) {
  BlockPool pool(4);

  const std::vector<BlockRef> refs = AllocateMany(pool, 4);

  EXPECT_EQ(Ids(refs), (std::vector<uint32_t>{0, 1, 2, 3}));
}

TEST(BlockPoolTest, TheBlockFreedLastIsReusedFirst) {
  BlockPool pool(5);
  std::vector<BlockRef> refs = AllocateMany(pool, 4);

  refs[1].Reset();
  refs[3].Reset();
  refs[0].Reset();

  EXPECT_EQ(Ids(AllocateMany(pool, 4)), (std::vector<uint32_t>{0, 3, 1, 4}));
}

TEST(BlockPoolTest, ExhaustionIsAValueAndEndsWhenABlockIsDropped) {
  BlockPool pool(2);
  std::vector<BlockRef> refs = AllocateMany(pool, 2);
  EXPECT_FALSE(pool.Allocate().has_value());
  EXPECT_EQ(pool.num_free(), 0u);
  EXPECT_EQ(pool.num_in_use(), 2u);

  refs[1].Reset();

  const auto again = pool.Allocate();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->id(), BlockId(1));
}

TEST(BlockPoolTest, APoolOfNoBlocksIsExhaustedFromTheStart) {
  BlockPool pool(0);

  EXPECT_FALSE(pool.Allocate().has_value());
  EXPECT_FALSE(pool.AllocateContiguous(1).has_value());
  EXPECT_TRUE(pool.CheckIntegrity().ok());
}

TEST(BlockPoolTest, ASharedBlockStaysInUseUntilItsLastReferenceIsDropped) {
  BlockPool pool(1);
  BlockRef first = *pool.Allocate();
  EXPECT_FALSE(first.is_shared());

  BlockRef second = first.Share();
  EXPECT_EQ(second.id(), first.id());
  EXPECT_TRUE(first.is_shared());
  EXPECT_EQ(pool.ref_count(BlockId(0)), 2u);

  first.Reset();
  EXPECT_EQ(pool.block_state(BlockId(0)), BlockState::kInUse);
  EXPECT_FALSE(second.is_shared());

  second.Reset();
  EXPECT_EQ(pool.block_state(BlockId(0)), BlockState::kFree);
}

TEST(BlockPoolTest, MovingAReferenceNeitherRetainsNorDrops) {
  BlockPool pool(2);
  BlockRef first = *pool.Allocate();
  BlockRef target = *pool.Allocate();

  target = std::move(first);  // drops block 1, takes over block 0

  EXPECT_EQ(target.id(), BlockId(0));
  EXPECT_EQ(pool.ref_count(BlockId(0)), 1u);
  EXPECT_EQ(pool.block_state(BlockId(1)), BlockState::kFree);
}

TEST(BlockPoolTest, ContiguousAllocationTakesTheLowestRunThatIsLongEnough) {
  BlockPool pool(10);
  std::vector<BlockRef> refs = AllocateMany(pool, 10);
  for (const size_t freed : {1, 2, 4, 5, 6, 8}) refs[freed].Reset();

  const auto run = pool.AllocateContiguous(3);

  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(Ids(*run), (std::vector<uint32_t>{4, 5, 6}));
  EXPECT_TRUE(pool.CheckIntegrity().ok());
  EXPECT_EQ(Ids(AllocateMany(pool, 3)), (std::vector<uint32_t>{8, 2, 1}));
}

TEST(BlockPoolTest, FragmentationDefeatsContiguousAllocationAndChangesNothing) {
  BlockPool pool(6);
  std::vector<BlockRef> refs = AllocateMany(pool, 6);
  for (const size_t freed : {0, 2, 4}) refs[freed].Reset();

  EXPECT_FALSE(pool.AllocateContiguous(2).has_value());

  EXPECT_EQ(pool.num_free(), 3u);
  EXPECT_TRUE(pool.CheckIntegrity().ok());
}

TEST(BlockPoolTest, AContiguousRunMayEndAtTheLastBlock) {
  BlockPool pool(4);

  const auto run = pool.AllocateContiguous(4);

  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(Ids(*run), (std::vector<uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(pool.num_free(), 0u);
}

TEST(BlockPoolDeathTest, APoolMustOutliveItsReferences) {
  EXPECT_DEATH(
      {
        BlockRef survivor;
        BlockPool pool(3);
        survivor = *pool.Allocate();
      },
      "1 blocks are still referenced when their pool dies");
}

TEST(BlockPoolDeathTest, NothingIsSharedFromAnEmptyReference) {
  EXPECT_DEATH(static_cast<void>(BlockRef().Share()), "holds no block");
}

TEST(BlockPoolDeathTest, ABlockOfNoPoolHasNoState) {
  BlockPool pool(3);
  EXPECT_DEATH(static_cast<void>(pool.block_state(BlockId(3))), "not of this pool");
}

}  // namespace
}  // namespace octavo::kvcache
