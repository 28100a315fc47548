#include "octavo/kvcache/integrity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "octavo/kvcache/block_pool.h"

namespace octavo::kvcache {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Four blocks: 0 in use, 1 -> 2 -> 3 on the free list.
class IntegrityTest : public testing::Test {
 protected:
  IntegrityTest() : pool_(4), held_(*pool_.Allocate()), state_(pool_.state()) {}

  std::vector<std::string> Findings() const { return AuditPool(state_).findings; }

  BlockPool pool_;
  BlockRef held_;
  BlockPoolState state_;  // a copy, for the test to spoil
};

TEST_F(IntegrityTest, SoundBooksHaveNoFinding) {
  EXPECT_TRUE(AuditPool(state_).ok());
  EXPECT_EQ(AuditPool(state_).ToString(), "ok");
}

TEST_F(IntegrityTest, AWrongCountOfFreeBlocksIsFound) {
  state_.num_free = 2;

  EXPECT_THAT(Findings(), ElementsAre("num_free is 2, the free list holds 3"));
}

TEST_F(IntegrityTest, AReferencedBlockOnTheFreeListIsFound) {
  state_.blocks[2].ref_count = 7;

  EXPECT_THAT(Findings(), ElementsAre("block 2 is on the free list with 7 references"));
}

TEST_F(IntegrityTest, ALeakedBlockIsFound) {
  state_.blocks[0].ref_count = 0;

  EXPECT_THAT(Findings(), ElementsAre("block 0 has no reference and is not on the free list"));
}

TEST_F(IntegrityTest, ALinkThatOnlyOneOfTwoBlocksKnowsIsFound) {
  state_.blocks[3].prev_free = 1;

  EXPECT_THAT(Findings(), ElementsAre("block 3 follows 2 on the free list, its own link says 1"));
}

TEST_F(IntegrityTest, ALoopInTheFreeListIsFoundAndEndsTheWalk) {
  state_.blocks[3].next_free = 2;

  EXPECT_THAT(Findings(), ElementsAre("the free list comes back to block 2"));
}

TEST_F(IntegrityTest, ALinkOutOfThePoolIsFound) {
  state_.blocks[3].next_free = 4;

  EXPECT_THAT(Findings(), ElementsAre("the free list leads to block 4, the pool has 4"));
}

TEST_F(IntegrityTest, ABlockInUseWithLinksIsFound) {
  state_.blocks[0].next_free = 3;

  EXPECT_THAT(Findings(), ElementsAre("block 0 is not on the free list but has links"));
}

TEST_F(IntegrityTest, AReferenceWithoutATableEntryIsFound) {
  state_.blocks[0].ref_count = 2;
  const std::array<uint32_t, 1> entries = {0};
  const std::array<std::span<const uint32_t>, 1> tables = {entries};

  EXPECT_THAT(AuditReferences(state_, tables).findings,
              ElementsAre("block 0 has 2 references, the block tables hold 1"));
}

TEST_F(IntegrityTest, ATableEntryOutOfThePoolIsFound) {
  const std::array<uint32_t, 2> entries = {0, 9};
  const std::array<std::span<const uint32_t>, 1> tables = {entries};

  EXPECT_THAT(AuditReferences(state_, tables).findings,
              ElementsAre("a block table names block 9, the pool has 4"));
}

TEST(IntegrityReportTest, KeepsTheFirstFindingsAndCountsAll) {
  BlockPoolState state;
  state.blocks.resize(100);  // none referenced, none on the free list

  const IntegrityReport report = AuditPool(state);

  EXPECT_EQ(report.num_findings, 100u);
  EXPECT_EQ(report.findings.size(), IntegrityReport::kMaxFindings);
  EXPECT_THAT(report.ToString(), HasSubstr("block 0 has no reference"));
  EXPECT_THAT(report.ToString(), HasSubstr("; and 84 more"));
}

}  // namespace
}  // namespace octavo::kvcache
