// Each audit finds what a test spoils in a copy of the books.

#include "kvcache/cache_audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <optional>
#include <vector>

#include "kvcache/prefix_cache.h"

namespace octavo::kvcache {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int32_t kBlockSize = 8;

// Six blocks under one root: 0 <- 1 <- 2 (2 holds five tokens), 3 beside 1. 0 and 1 are in use,
// 2 and 3 idle, 3 pinned (and 0 with it); 4 is free; 5 is in use without content.
class CacheAuditTest : public testing::Test {
 protected:
  CacheAuditTest() {
    KvCacheOptions options;
    options.num_blocks = 6;
    options.block_size_tokens = kBlockSize;
    cache_.emplace(&pool_, options);
    root_ = cache_->RetainRoot("root");
    const std::vector<int32_t> tokens = Tokens(0, 21);
    std::array<BlockRef, 6> refs;
    for (BlockRef& ref : refs) ref = *pool_.Allocate();
    Publish(0, ParentOfRoot(root_), Tokens(0, 8));
    Publish(1, ParentOfBlock(0), Tokens(8, 8));
    Publish(2, ParentOfBlock(1), Tokens(16, 5));
    Publish(3, ParentOfBlock(0), Tokens(100, 8));
    std::vector<int32_t> pinned = Tokens(0, 8);
    const std::vector<int32_t> rest = Tokens(100, 8);
    pinned.insert(pinned.end(), rest.begin(), rest.end());
    PinId pin;
    EXPECT_EQ(cache_->Pin(root_, pinned, 1000, &pin), 16);
    held_ = {std::move(refs[0]), std::move(refs[1]), std::move(refs[5])};
    for (const size_t block : {2, 3, 4}) refs[block].Reset();
    pool_state_ = pool_.state();
    tree_ = cache_->tree().state();
    order_ = cache_->policy().state();
    pins_ = cache_->pins().state();
  }
  ~CacheAuditTest() override {
    for (BlockRef& ref : held_) ref.Reset();
    cache_->ReleaseRoot(root_);
  }

  static std::vector<int32_t> Tokens(int32_t first, size_t count) {
    std::vector<int32_t> tokens(count);
    std::iota(tokens.begin(), tokens.end(), first);
    return tokens;
  }
  void Publish(uint32_t block, ParentId parent, const std::vector<int32_t>& tokens) {
    EXPECT_EQ(cache_->Publish(block, parent, tokens), block);
  }

  std::vector<std::string> TreeFindings() const { return AuditTree(pool_state_, tree_).findings; }
  std::vector<std::string> OrderFindings() const {
    return AuditEvictionOrder(pool_state_, tree_, order_, pins_).findings;
  }
  std::vector<std::string> PinFindings() const { return AuditPins(tree_, pins_).findings; }
  std::vector<std::string> TableFindings(const std::vector<uint32_t>& ids, int64_t length) const {
    return AuditTable(tree_, root_, ids, length).findings;
  }

  BlockPool pool_{6};
  std::optional<PrefixCache> cache_;
  std::array<BlockRef, 3> held_;
  uint32_t root_ = 0;
  // Copies, for the tests to spoil.
  BlockPoolState pool_state_;
  PrefixTreeState tree_;
  BlockListsState order_;
  PinRegistryState pins_;
};

TEST_F(CacheAuditTest, SoundBooksHaveNoFinding) {
  EXPECT_THAT(TreeFindings(), ElementsAre());
  EXPECT_THAT(OrderFindings(), ElementsAre());
  EXPECT_THAT(PinFindings(), ElementsAre());
  EXPECT_THAT(TableFindings({0, 1, 5}, 18), ElementsAre());
  EXPECT_THAT(TableFindings({0, 1, 2}, 20), ElementsAre());
}

TEST_F(CacheAuditTest, ContentOnAFreeBlockIsFound) {
  tree_.nodes[4] = {.parent = ParentOfBlock(0), .num_tokens = 3};

  EXPECT_THAT(TreeFindings(),
              ElementsAre("block 4 holds 3 tokens and is not in the tree",
                          "block 4 is free and has content", HasSubstr("block 4 is number 0")));
}

TEST_F(CacheAuditTest, ANodeWithAnotherParentIsFound) {
  tree_.nodes[2].parent = ParentOfBlock(3);

  EXPECT_THAT(TreeFindings(), Contains("block 2 is among the children of 1, its own link says 3"));
}

TEST_F(CacheAuditTest, ANodeThatIsReachedTwiceIsFound) {
  tree_.nodes[2].right = 3;

  EXPECT_THAT(TreeFindings(), Contains("the tree leads to block 3 twice"));
}

TEST_F(CacheAuditTest, ALinkOutOfTheTreeIsFound) {
  tree_.nodes[2].left = 77;

  EXPECT_THAT(TreeFindings(), Contains("the tree leads to block 77, it has 6"));
}

TEST_F(CacheAuditTest, ChangedTokensAreFound) {
  tree_.tokens[1 * kBlockSize] = 7777;  // behind its sibling now, and not what was hashed

  EXPECT_THAT(TreeFindings(), Contains(HasSubstr("out of order")));
  EXPECT_THAT(TreeFindings(), Contains("block 1 has another hash than its tokens"));
}

TEST_F(CacheAuditTest, EqualSealedSiblingsAreFound) {
  for (size_t i = 0; i < kBlockSize; ++i) {
    tree_.tokens[3 * kBlockSize + i] = tree_.tokens[1 * kBlockSize + i];
  }

  EXPECT_THAT(TreeFindings(), Contains(HasSubstr("hold the same content")));
}

TEST_F(CacheAuditTest, ABlockInUseBehindAnIdleOneIsFound) {
  pool_state_.blocks[0].ref_count = 0;
  pool_state_.blocks[0].is_evictable = true;

  EXPECT_THAT(TreeFindings(), ElementsAre("block 1 is in use, its parent 0 is not"));
}

TEST_F(CacheAuditTest, ChildrenOfABlockThatIsNotFullAreFound) {
  tree_.nodes[1].num_tokens = 5;

  EXPECT_THAT(TreeFindings(), Contains("block 1 has children and is not full"));
}

TEST_F(CacheAuditTest, AKeptBlockWithoutContentIsFound) {
  pool_state_.blocks[5].ref_count = 0;
  pool_state_.blocks[5].is_evictable = true;

  EXPECT_THAT(TreeFindings(), ElementsAre("block 5 is kept without content"));
}

TEST_F(CacheAuditTest, ARootThatShouldBeGoneIsFound) {
  tree_.roots.push_back({.key = "stale", .is_used = true});

  EXPECT_THAT(TreeFindings(), ElementsAre("root 1 is known, it has 0 holders and no content"));
}

TEST_F(CacheAuditTest, AnIdleBlockThatCannotBeEvictedIsFound) {
  pins_.num_pins[3] = 0;

  EXPECT_THAT(OrderFindings(),
              ElementsAre("block 3 is evictable with 0 pins, and not in the eviction order"));
}

TEST_F(CacheAuditTest, ABlockInUseThatCouldBeEvictedIsFound) {
  pool_state_.blocks[2].is_evictable = false;

  EXPECT_THAT(OrderFindings(),
              ElementsAre("block 2 is not evictable with 0 pins, and in the eviction order"));
}

TEST_F(CacheAuditTest, BrokenEvictionListsAreFound) {
  const uint32_t list = order_.links[2].list;
  order_.lists[list].size = 4;
  order_.links[2].previous = 1;

  EXPECT_THAT(OrderFindings(), ElementsAre(HasSubstr("block 2 follows"),
                                           HasSubstr("holds 1 blocks, its size says 4")));

  order_.links[2].next = 2;
  EXPECT_THAT(OrderFindings(), Contains(HasSubstr("leads to block 2, which it cannot")));
}

TEST_F(CacheAuditTest, AParentThatGivesWayBeforeItsChildIsFound) {
  const uint32_t list = order_.links[2].list;
  pool_state_.blocks[1] = {.is_evictable = true};
  order_.links[1] = {list, kNoBlock, 2};
  order_.links[2].previous = 1;
  order_.lists[list] = {1, 2, 2};

  EXPECT_THAT(OrderFindings(), ElementsAre("block 2 is evicted after its parent 1"));
}

TEST_F(CacheAuditTest, WrongCountsOfPinsAreFound) {
  pins_.num_pins[0] = 2;
  pins_.num_pinned_blocks = 3;

  EXPECT_THAT(PinFindings(), ElementsAre("block 0 has 2 pins, 1 cover it",
                                         "num_pinned_blocks is 3, 2 blocks are"));
}

TEST_F(CacheAuditTest, APinOnABlockWithoutContentIsFound) {
  pins_.pins[0].last_block = 4;

  EXPECT_THAT(PinFindings(), Contains(HasSubstr("covers block 4, which has no content")));
}

TEST_F(CacheAuditTest, ATableThatIsNotAPathOfTheTreeIsFound) {
  EXPECT_THAT(TableFindings({0, 3, 2}, 20), ElementsAre(HasSubstr("block 2 follows 3 in a table")));
  EXPECT_THAT(TableFindings({0, 5}, 16),
              ElementsAre("a table has 8 tokens in block 5, which is known for 0"));
  EXPECT_THAT(TableFindings({0, 1, 2}, 22),
              ElementsAre("a table has 6 tokens in block 2, which is known for 5"));
  EXPECT_THAT(TableFindings({0, 1, 2}, 16),
              ElementsAre("a table has 0 tokens in block 2, which is known for 5"));
}

}  // namespace
}  // namespace octavo::kvcache
