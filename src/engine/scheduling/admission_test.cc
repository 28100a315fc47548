// What can never be served, with figures worked out by hand. Blocks hold 16 tokens.

#include "engine/scheduling/admission.h"

#include <gtest/gtest.h>

#include <limits>

namespace octavo::engine {
namespace {

SchedulerLimits Limits(uint32_t max_num_seqs) {
  SchedulerLimits limits;
  limits.block_size_tokens = 16;
  limits.max_num_seqs = max_num_seqs;
  return limits;
}

RequestDemand Lockstep(int64_t num_prompt_tokens, int64_t max_output_tokens, uint32_t width) {
  RequestDemand demand;
  demand.num_prompt_tokens = num_prompt_tokens;
  demand.max_output_tokens = max_output_tokens;
  demand.num_sequences = width;
  demand.in_lockstep = true;
  return demand;
}

TEST(AdmissionTest, ASequenceNeedsBlocksForItsPromptAndItsLongestOutput) {
  EXPECT_EQ(NumBlocksAlone({.num_prompt_tokens = 60, .max_output_tokens = 60}, 16), 8);
  EXPECT_EQ(NumBlocksAlone({.num_prompt_tokens = 64, .max_output_tokens = 64}, 16), 8);
  EXPECT_EQ(NumBlocksAlone({.num_prompt_tokens = 64, .max_output_tokens = 65}, 16), 9);
}

TEST(AdmissionTest, CompletionsOfOneRequestCanRunOneAfterTheOther) {
  EXPECT_EQ(
      NumBlocksAlone({.num_prompt_tokens = 60, .max_output_tokens = 60, .num_sequences = 5}, 16),
      8);
}

TEST(AdmissionTest, BeamsShareThePromptAndHoldTheirOutputsSideBySide) {
  // 4 blocks of prompt; each beam 4 of output and one more.
  EXPECT_EQ(NumBlocksAlone(Lockstep(60, 60, 3), 16), 4 + 3 * 5);
}

TEST(AdmissionTest, BeamsThatCannotShareHoldEverythingEach) {
  RequestDemand demand = Lockstep(60, 60, 3);
  demand.shares_blocks = false;

  EXPECT_EQ(NumBlocksAlone(demand, 16), 3 * 8);
}

TEST(AdmissionTest, WhatJustFitsIsNotRefused) {
  const RequestDemand demand{.num_prompt_tokens = 60, .max_output_tokens = 60, .num_sequences = 4};

  EXPECT_FALSE(RefuseIfImpossible(demand, 8, Limits(4)));
}

TEST(AdmissionTest, ARequestLargerThanThePoolIsRefusedWithBothNumbers) {
  const auto refusal =
      RefuseIfImpossible({.num_prompt_tokens = 100, .max_output_tokens = 29}, 8, Limits(4));

  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason, Refusal::Reason::kBlocks);
  EXPECT_EQ(refusal->num_needed, 9);
  EXPECT_EQ(refusal->limit, 8);
}

TEST(AdmissionTest, MoreSequencesThanMayRunAreRefusedWithBothNumbers) {
  const auto refusal = RefuseIfImpossible(
      {.num_prompt_tokens = 1, .max_output_tokens = 1, .num_sequences = 5}, 8, Limits(4));

  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason, Refusal::Reason::kSequences);
  EXPECT_EQ(refusal->num_needed, 5);
  EXPECT_EQ(refusal->limit, 4);
}

TEST(AdmissionTest, CountsThatOverflowAreRefused) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

  EXPECT_EQ(NumBlocksAlone({.num_prompt_tokens = 2, .max_output_tokens = kHuge}, 16), kHuge);
  EXPECT_EQ(NumBlocksAlone(Lockstep(2, kHuge, 1u << 31), 16), kHuge);
  EXPECT_TRUE(RefuseIfImpossible({.num_prompt_tokens = 2, .max_output_tokens = kHuge},
                                 std::numeric_limits<uint32_t>::max(), Limits(4)));
}

}  // namespace
}  // namespace octavo::engine
