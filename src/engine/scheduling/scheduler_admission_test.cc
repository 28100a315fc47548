// The rules of docs/contracts/scheduling.md for sequences that wait, one by one, with
// figures worked out by hand.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/scheduling/test_snapshot.h"

namespace octavo::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Row = ScheduledSequence;

using SchedulerAdmissionTest = SchedulerTest;

// ---- Order, sequences, blocks

TEST_F(SchedulerAdmissionTest, CandidatesAreAdmittedInOrderWhileTheBudgetLasts) {
  Run(21, 20);
  Wait(40);
  Wait(40);
  Wait(5);

  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 40}, Row{102, 23}));
}

TEST_F(SchedulerAdmissionTest, OnlyWhatTheCacheDoesNotHoldIsComputed) {
  WaitingView& candidate = Wait(40);
  candidate.num_cached = 39;  // 2 whole blocks and 7 tokens of a third
  candidate.num_shared_blocks = 2;

  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 1}));
}

TEST_F(SchedulerAdmissionTest, AFullHitComputesTheLastTokenAgain) {
  snapshot_.num_available_blocks = 3;
  WaitingView& candidate = Wait(48);
  candidate.num_swapped = 48;

  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 1}));
}

TEST_F(SchedulerAdmissionTest, SequencesAreCountedWithThoseSetAsideForForks) {
  snapshot_.limits.max_num_seqs = 6;
  snapshot_.num_reserved_sequences = 2;
  Run(21, 20);
  Wait(5).num_sequences = 2;
  Wait(5);
  Wait(5);

  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 5}, Row{102, 5}));
}

TEST_F(SchedulerAdmissionTest, ARequestForManySequencesIsNotOvertaken) {
  snapshot_.limits.max_num_seqs = 4;
  Run(21, 20);
  Wait(5).num_sequences = 4;
  Wait(5);

  Plan();

  EXPECT_THAT(plan_.scheduled, ElementsAre(Row{1, 1}));
  EXPECT_THAT(plan_.admitted, IsEmpty());
}

TEST_F(SchedulerAdmissionTest, ALargeCandidateIsNotOvertakenBySmallOnes) {
  snapshot_.num_available_blocks = 3;
  Run(21, 20);
  Wait(63);  // 4 blocks
  Wait(5);

  EXPECT_THAT(Plan().admitted, IsEmpty());

  snapshot_.num_available_blocks = 4;
  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 63}));
}

TEST_F(SchedulerAdmissionTest, TheWatermarkIsKeptFreeBesideOthersOnly) {
  snapshot_.limits.watermark_blocks = 2;
  snapshot_.num_available_blocks = 3;
  Wait(32);
  Wait(5);

  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 32}));  // 1 left < 1 + 2

  snapshot_.num_available_blocks = 4;
  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 32}));  // 2 left < 1 + 2

  snapshot_.num_available_blocks = 5;
  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 32}, Row{102, 5}));
}

TEST_F(SchedulerAdmissionTest, SharedBlocksThatOnlyTheCacheHoldsCeaseToBeAvailable) {
  WaitingView& candidate = Wait(60);
  candidate.num_cached = 40;  // 2 whole blocks, and 8 tokens of a third
  candidate.num_shared_blocks = 2;
  candidate.num_idle_blocks = 1;
  // Tokens 40..59 end in the fourth block: two of its own, of which the first takes the copy.
  snapshot_.num_available_blocks = 2;
  EXPECT_THAT(Plan().admitted, IsEmpty());

  snapshot_.num_available_blocks = 3;
  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 20}));
}

TEST_F(SchedulerAdmissionTest, TheCopyOfAPartlyMatchingBlockIsTheOnlyBlockWhenTheRestFitsIntoIt) {
  snapshot_.num_available_blocks = 1;
  WaitingView& candidate = Wait(40);
  candidate.num_cached = 39;
  candidate.num_shared_blocks = 2;

  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 1}));
}

TEST_F(SchedulerAdmissionTest, ASwappedSequenceNeedsBlocksForAllThatReturnsAndForItsNextChunk) {
  WaitingView& candidate = Wait(49);
  candidate.num_swapped = 48;
  snapshot_.num_available_blocks = 3;
  EXPECT_THAT(Plan().admitted, IsEmpty());

  snapshot_.num_available_blocks = 4;
  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 1}));
}

TEST_F(SchedulerAdmissionTest, WhatTheCacheStillHoldsOfASwappedSequenceIsShared) {
  WaitingView& candidate = Wait(49);
  candidate.num_swapped = 48;
  candidate.num_cached = 32;
  candidate.num_shared_blocks = 2;
  candidate.num_idle_blocks = 1;
  snapshot_.num_available_blocks = 2;
  EXPECT_THAT(Plan().admitted, IsEmpty());

  snapshot_.num_available_blocks = 3;
  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 1}));
}

TEST_F(SchedulerAdmissionTest, NobodyIsAdmittedInARoundThatPreempted) {
  snapshot_.preempted_this_round = true;
  Run(21, 20);
  Wait(5);

  Plan();

  EXPECT_THAT(plan_.scheduled, ElementsAre(Row{1, 1}));
  EXPECT_THAT(plan_.admitted, IsEmpty());

  snapshot_.running.clear();
  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 5}));
}

// ---- Waiting for another's tokens

TEST_F(SchedulerAdmissionTest, ACandidateWaitsForTokensThatARunningOneIsComputingAndOthersPass) {
  RunningView& target = Run(100, 32);
  WaitingView& candidate = Wait(100);
  candidate.depends_on = target.id;
  candidate.depends_until = 90;
  Wait(5);
  snapshot_.limits.max_num_batched_tokens = 100;

  EXPECT_THAT(Plan().admitted, ElementsAre(Row{102, 5}));
}

TEST_F(SchedulerAdmissionTest, ACandidateComesInOnceTheTokensAreComputed) {
  RunningView& target = Run(100, 90);
  WaitingView& candidate = Wait(100);
  candidate.depends_on = target.id;
  candidate.depends_until = 90;

  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 54}));
}

TEST_F(SchedulerAdmissionTest, ACandidateThatFindsTheTokensInTheCacheIsFree) {
  RunningView& target = Run(100, 32);
  WaitingView& candidate = Wait(100);
  candidate.depends_on = target.id;
  candidate.depends_until = 90;
  candidate.num_cached = 90;
  snapshot_.limits.max_num_batched_tokens = 100;

  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 10}));
}

TEST_F(SchedulerAdmissionTest, ACandidateWaitsForOneThatIsAdmittedInTheSameStep) {
  Wait(10);
  WaitingView& candidate = Wait(20);
  candidate.depends_on = 101;
  candidate.depends_until = 10;

  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 10}));
}

TEST_F(SchedulerAdmissionTest, ACandidateDoesNotWaitForOneThatIsNeitherRunningNorAdmitted) {
  WaitingView& candidate = Wait(20);
  candidate.depends_on = 55;  // aborted, or preempted
  candidate.depends_until = 10;

  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 20}));
}

TEST_F(SchedulerAdmissionTest, ACandidateDoesNotWaitForABeamThatOnlyWaits) {
  RunningView& target = Run(20, 20);
  WaitingView& candidate = Wait(30);
  candidate.depends_on = target.id;
  candidate.depends_until = 25;

  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 30}));
}

// ---- Static batching

TEST_F(SchedulerAdmissionTest, AStaticBatchTakesNobodyInUntilAllHaveEnded) {
  snapshot_.limits.static_batching = true;
  Run(21, 20);
  Wait(5);

  Plan();

  EXPECT_THAT(plan_.scheduled, ElementsAre(Row{1, 1}));
  EXPECT_THAT(plan_.admitted, IsEmpty());
}

TEST_F(SchedulerAdmissionTest, AStaticBatchFillsUpInOneStepThoughTheBudgetIsSmall) {
  snapshot_.limits.static_batching = true;
  snapshot_.limits.max_num_seqs = 3;
  for (int i = 0; i < 4; ++i) Wait(50);

  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 50}, Row{102, 13}, Row{103, 1}));
}

TEST_F(SchedulerAdmissionTest, AStaticBatchTakesNoMoreThanHaveRoomForTheirPrompts) {
  snapshot_.limits.static_batching = true;
  snapshot_.num_available_blocks = 9;
  for (int i = 0; i < 4; ++i) Wait(50);  // 4 blocks each

  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 50}, Row{102, 12}));
}

TEST_F(SchedulerAdmissionTest, AStaticBatchDoesNotWaitForAnothersTokens) {
  snapshot_.limits.static_batching = true;
  Wait(10);
  WaitingView& candidate = Wait(20);
  candidate.depends_on = 101;
  candidate.depends_until = 10;

  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 10}, Row{102, 20}));
}

}  // namespace
}  // namespace octavo::engine
