// The rules of docs/contracts/scheduling.md, one by one, with figures worked out by hand. Blocks
// hold 16 tokens.

#include "engine/scheduling/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace octavo::engine {

inline void PrintTo(const ScheduledSequence& sequence, std::ostream* out) {
  *out << "slot " << sequence.slot << ": " << sequence.num_tokens;
}

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Row = ScheduledSequence;

// Sequences get slots and arrivals in the order in which they are added, running ones from 1,
// waiting ones from 101.
class SchedulerTest : public ::testing::Test {
 protected:
  SchedulerTest() {
    snapshot_.limits.block_size_tokens = 16;
    snapshot_.limits.max_num_batched_tokens = 64;
    snapshot_.limits.max_num_seqs = 8;
    snapshot_.num_available_blocks = 100;
  }

  // Holds just the blocks that its computed tokens need.
  RunningView& Run(int64_t num_tokens, int64_t num_computed) {
    RunningView view;
    view.slot = static_cast<SequenceSlot>(snapshot_.running.size() + 1);
    view.arrival = view.slot;
    view.unit = view.slot;
    view.num_tokens = num_tokens;
    view.num_computed = num_computed;
    view.num_held_blocks = static_cast<uint32_t>((num_computed + 15) / 16);
    view.capacity_tokens = int64_t{view.num_held_blocks} * 16;
    snapshot_.running.push_back(view);
    return snapshot_.running.back();
  }

  WaitingView& Wait(int64_t num_tokens) {
    WaitingView view;
    view.slot = static_cast<SequenceSlot>(snapshot_.waiting.size() + 101);
    view.arrival = view.slot;
    view.num_tokens = num_tokens;
    snapshot_.waiting.push_back(view);
    return snapshot_.waiting.back();
  }

  const StepPlan& Plan() {
    Scheduler::Plan(snapshot_, &plan_);
    return plan_;
  }

  SchedulerSnapshot snapshot_;
  StepPlan plan_;
};

// ---- Budget

TEST_F(SchedulerTest, DecodesComeBeforePrefillsAndPrefillsBeforeAdmissions) {
  Run(200, 64);  // a prefill, older than the decodes
  Run(21, 20);
  Run(31, 30);
  Wait(10);

  Plan();

  EXPECT_THAT(plan_.scheduled, ElementsAre(Row{2, 1}, Row{3, 1}, Row{1, 62}));
  EXPECT_THAT(plan_.admitted, IsEmpty());
}

TEST_F(SchedulerTest, PrefillsShareWhatIsLeftInOrderAndTheLastGetsAChunk) {
  Run(40, 0);
  Run(40, 0);
  Wait(10);

  Plan();

  EXPECT_THAT(plan_.scheduled, ElementsAre(Row{1, 40}, Row{2, 24}));
  EXPECT_THAT(plan_.admitted, IsEmpty());
}

TEST_F(SchedulerTest, DecodesBeyondTheBudgetWaitInOrder) {
  snapshot_.limits.max_num_batched_tokens = 2;
  for (int i = 0; i < 3; ++i) Run(21, 20);

  EXPECT_THAT(Plan().scheduled, ElementsAre(Row{1, 1}, Row{2, 1}));
}

TEST_F(SchedulerTest, TheMostUrgentGoesOnThoughItIsAPrefillAndDecodesWouldTakeTheBudget) {
  snapshot_.limits.max_num_batched_tokens = 2;
  Run(40, 20);
  Run(21, 20);
  Run(21, 20);

  EXPECT_THAT(Plan().scheduled, ElementsAre(Row{2, 1}, Row{1, 1}));
}

TEST_F(SchedulerTest, ABeamThatWaitsForItsSiblingsIsLeftAlone) {
  Run(20, 20).unit = 7;
  Run(20, 19).unit = 7;

  EXPECT_THAT(Plan().scheduled, ElementsAre(Row{2, 1}));
}

// ---- Blocks of the running

TEST_F(SchedulerTest, ADecodeInsideItsBlockNeedsNone) {
  snapshot_.num_available_blocks = 0;
  Run(32, 31);

  EXPECT_THAT(Plan().scheduled, ElementsAre(Row{1, 1}));
}

TEST_F(SchedulerTest, APrefillChunkShrinksToTheBlocksThatAreLeft) {
  snapshot_.num_available_blocks = 2;
  Run(33, 32);   // takes one of the two
  Run(100, 20);  // 12 positions of its second block, and 16 of one more

  EXPECT_THAT(Plan().scheduled, ElementsAre(Row{1, 1}, Row{2, 28}));
}

TEST_F(SchedulerTest, AWriteIntoASharedTailNeedsABlockForTheCopy) {
  snapshot_.num_available_blocks = 2;
  Run(21, 20).tail_is_shared = true;  // the copy
  Run(60, 20).tail_is_shared = true;  // the copy, and nothing beyond: 12 positions

  EXPECT_THAT(Plan().scheduled, ElementsAre(Row{1, 1}, Row{2, 12}));
}

TEST_F(SchedulerTest, ASharedTailThatIsFullIsNotCopied) {
  snapshot_.num_available_blocks = 1;
  Run(33, 32).tail_is_shared = true;

  EXPECT_THAT(Plan().scheduled, ElementsAre(Row{1, 1}));
}

// ---- Preemption

TEST_F(SchedulerTest, TheNewestGivesWayToAnOlderOneThatLacksABlock) {
  snapshot_.num_available_blocks = 0;
  Run(33, 32);
  Run(21, 20);
  Run(21, 20);

  Plan();

  EXPECT_EQ(plan_.preempt, 3u);
  EXPECT_TRUE(plan_.changes_holders());
  EXPECT_THAT(plan_.scheduled, IsEmpty());
}

TEST_F(SchedulerTest, ALeastUrgentOneThatLacksABlockGivesWayItself) {
  snapshot_.num_available_blocks = 0;
  Run(21, 20);
  Run(33, 32);

  EXPECT_EQ(Plan().preempt, 2u);
}

TEST_F(SchedulerTest, AMoreUrgentPrefillTakesTheBlocksOfADecodeThatCouldGoOn) {
  snapshot_.num_available_blocks = 0;
  Run(100, 32);
  Run(21, 20);

  EXPECT_EQ(Plan().preempt, 2u);
}

TEST_F(SchedulerTest, AUnitOfSeveralGivesWayAsAWholeAndItsMostUrgentMemberCounts) {
  snapshot_.num_available_blocks = 0;
  Run(33, 32);
  Run(20, 20).unit = 9;
  Run(20, 19).unit = 9;

  EXPECT_EQ(Plan().preempt, 2u);  // the engine takes the whole unit
}

TEST_F(SchedulerTest, NobodyGivesWayWithinTheOnlyUnit) {
  snapshot_.num_available_blocks = 0;
  Run(32, 31).unit = 9;
  Run(33, 32).unit = 9;

  Plan();

  EXPECT_EQ(plan_.preempt, kNoSlot);
  EXPECT_THAT(plan_.scheduled, ElementsAre(Row{1, 1}));
}

TEST_F(SchedulerTest, SwapIsChosenWhenItIsCheaperAndThereIsRoom) {
  snapshot_.num_available_blocks = 0;
  snapshot_.seconds_per_token = 0.001;
  snapshot_.seconds_per_swapped_block = 0.01;  // 3 blocks: 0.03 s; 40 tokens: 0.04 s
  snapshot_.num_free_swap_blocks = 3;
  Run(33, 32);
  Run(41, 40);

  EXPECT_EQ(Plan().preemption_mode, PreemptionMode::kSwap);

  snapshot_.num_free_swap_blocks = 2;
  EXPECT_EQ(Plan().preemption_mode, PreemptionMode::kRecompute);

  snapshot_.num_free_swap_blocks = 3;
  snapshot_.seconds_per_swapped_block = 0.014;  // 0.042 s
  EXPECT_EQ(Plan().preemption_mode, PreemptionMode::kRecompute);
}

TEST_F(SchedulerTest, TheCostOfAUnitIsThatOfAllItsSequences) {
  snapshot_.num_available_blocks = 0;
  snapshot_.seconds_per_token = 0.001;
  snapshot_.seconds_per_swapped_block = 0.008;  // 3 + 2 blocks: 0.04 s; 40 + 17 tokens: 0.057 s
  snapshot_.num_free_swap_blocks = 4;
  Run(33, 32);
  Run(41, 40).unit = 9;
  Run(18, 17).unit = 9;

  EXPECT_EQ(Plan().preemption_mode, PreemptionMode::kRecompute);  // 5 blocks do not fit into 4

  snapshot_.num_free_swap_blocks = 5;
  EXPECT_EQ(Plan().preemption_mode, PreemptionMode::kSwap);
}

// ---- Pins

TEST_F(SchedulerTest, PinsYieldToTheOnlyOneThatRuns) {
  snapshot_.num_available_blocks = 0;
  snapshot_.num_pinned_idle_blocks = 5;
  Run(33, 32);

  Plan();

  EXPECT_EQ(plan_.preempt, kNoSlot);
  EXPECT_EQ(plan_.yield_pins_blocks, 1u);
  EXPECT_THAT(plan_.scheduled, IsEmpty());
}

TEST_F(SchedulerTest, PinsYieldAsMuchAsThePrefillCanUse) {
  snapshot_.num_available_blocks = 0;
  snapshot_.num_pinned_idle_blocks = 5;
  Run(90, 32);  // 58 tokens: 4 blocks

  EXPECT_EQ(Plan().yield_pins_blocks, 4u);

  snapshot_.num_pinned_idle_blocks = 3;
  EXPECT_EQ(Plan().yield_pins_blocks, 3u);
}

TEST_F(SchedulerTest, PinsYieldOnTopOfWhatTheUnitsOtherSequencesTake) {
  snapshot_.num_available_blocks = 1;
  snapshot_.num_pinned_idle_blocks = 1;
  Run(33, 32).unit = 9;
  Run(33, 32).unit = 9;

  EXPECT_EQ(Plan().yield_pins_blocks, 2u);
}

TEST_F(SchedulerTest, OthersGiveWayBeforePinsDo) {
  snapshot_.num_available_blocks = 0;
  snapshot_.num_pinned_idle_blocks = 5;
  Run(33, 32);
  Run(21, 20);

  Plan();

  EXPECT_EQ(plan_.preempt, 2u);
  EXPECT_EQ(plan_.yield_pins_blocks, 0u);
}

// ---- Admission

TEST_F(SchedulerTest, CandidatesAreAdmittedInOrderWhileTheBudgetLasts) {
  Run(21, 20);
  Wait(40);
  Wait(40);
  Wait(5);

  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 40}, Row{102, 23}));
}

TEST_F(SchedulerTest, OnlyWhatTheCacheDoesNotHoldIsComputed) {
  WaitingView& candidate = Wait(40);
  candidate.num_cached = 39;  // 2 whole blocks and 7 tokens of a third
  candidate.num_shared_blocks = 2;

  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 1}));
}

TEST_F(SchedulerTest, AFullHitComputesTheLastTokenAgain) {
  WaitingView& candidate = Wait(40);
  candidate.num_swapped = 40;

  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 1}));
}

TEST_F(SchedulerTest, SlotsAreCountedWithThoseSetAsideForForks) {
  snapshot_.limits.max_num_seqs = 6;
  snapshot_.num_reserved_slots = 2;
  Run(21, 20);
  Wait(5).num_slots = 2;
  Wait(5);
  Wait(5);

  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 5}, Row{102, 5}));
}

TEST_F(SchedulerTest, ARequestForManySlotsIsNotOvertaken) {
  snapshot_.limits.max_num_seqs = 4;
  Run(21, 20);
  Wait(5).num_slots = 4;
  Wait(5);

  Plan();

  EXPECT_THAT(plan_.scheduled, ElementsAre(Row{1, 1}));
  EXPECT_THAT(plan_.admitted, IsEmpty());
}

TEST_F(SchedulerTest, ALargeCandidateIsNotOvertakenBySmallOnes) {
  snapshot_.num_available_blocks = 3;
  Run(21, 20);
  Wait(63);  // 4 blocks
  Wait(5);

  EXPECT_THAT(Plan().admitted, IsEmpty());

  snapshot_.num_available_blocks = 4;
  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 63}));
}

TEST_F(SchedulerTest, TheWatermarkIsKeptFreeBesideOthersOnly) {
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

TEST_F(SchedulerTest, SharedBlocksThatOnlyTheCacheHoldsCeaseToBeAvailable) {
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

TEST_F(SchedulerTest, TheCopyOfAPartlyMatchingBlockIsTheOnlyBlockWhenTheRestFitsIntoIt) {
  snapshot_.num_available_blocks = 1;
  WaitingView& candidate = Wait(40);
  candidate.num_cached = 39;
  candidate.num_shared_blocks = 2;

  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 1}));
}

TEST_F(SchedulerTest, ASwappedSequenceNeedsBlocksForAllThatReturnsAndForItsNextChunk) {
  WaitingView& candidate = Wait(49);
  candidate.num_swapped = 48;
  snapshot_.num_available_blocks = 3;
  EXPECT_THAT(Plan().admitted, IsEmpty());

  snapshot_.num_available_blocks = 4;
  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 1}));
}

TEST_F(SchedulerTest, WhatTheCacheStillHoldsOfASwappedSequenceIsShared) {
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

TEST_F(SchedulerTest, NobodyIsAdmittedInARoundThatPreempted) {
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

TEST_F(SchedulerTest, ACandidateWaitsForTokensThatARunningOneIsComputingAndOthersPass) {
  RunningView& target = Run(100, 32);
  WaitingView& candidate = Wait(100);
  candidate.depends_on = target.slot;
  candidate.depends_until = 90;
  Wait(5);
  snapshot_.limits.max_num_batched_tokens = 100;

  EXPECT_THAT(Plan().admitted, ElementsAre(Row{102, 5}));
}

TEST_F(SchedulerTest, ACandidateComesInOnceTheTokensAreComputed) {
  RunningView& target = Run(100, 90);
  WaitingView& candidate = Wait(100);
  candidate.depends_on = target.slot;
  candidate.depends_until = 90;

  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 54}));
}

TEST_F(SchedulerTest, ACandidateThatFindsTheTokensInTheCacheIsFree) {
  RunningView& target = Run(100, 32);
  WaitingView& candidate = Wait(100);
  candidate.depends_on = target.slot;
  candidate.depends_until = 90;
  candidate.num_cached = 90;
  snapshot_.limits.max_num_batched_tokens = 100;

  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 10}));
}

TEST_F(SchedulerTest, ACandidateWaitsForOneThatIsAdmittedInTheSameStep) {
  Wait(10);
  WaitingView& candidate = Wait(20);
  candidate.depends_on = 101;
  candidate.depends_until = 10;

  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 10}));
}

TEST_F(SchedulerTest, ACandidateDoesNotWaitForOneThatIsNeitherRunningNorAdmitted) {
  WaitingView& candidate = Wait(20);
  candidate.depends_on = 55;  // aborted, or preempted
  candidate.depends_until = 10;

  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 20}));
}

// ---- Static batching

TEST_F(SchedulerTest, AStaticBatchTakesNobodyInUntilAllHaveEnded) {
  snapshot_.limits.static_batching = true;
  Run(21, 20);
  Wait(5);

  Plan();

  EXPECT_THAT(plan_.scheduled, ElementsAre(Row{1, 1}));
  EXPECT_THAT(plan_.admitted, IsEmpty());
}

TEST_F(SchedulerTest, AStaticBatchFillsUpInOneStepThoughTheBudgetIsSmall) {
  snapshot_.limits.static_batching = true;
  snapshot_.limits.max_num_seqs = 3;
  for (int i = 0; i < 4; ++i) Wait(50);

  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 50}, Row{102, 13}, Row{103, 1}));
}

TEST_F(SchedulerTest, AStaticBatchTakesNoMoreThanHaveRoomForTheirPrompts) {
  snapshot_.limits.static_batching = true;
  snapshot_.num_available_blocks = 9;
  for (int i = 0; i < 4; ++i) Wait(50);  // 4 blocks each

  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 50}, Row{102, 12}));
}

TEST_F(SchedulerTest, AStaticBatchDoesNotWaitForAnothersTokens) {
  snapshot_.limits.static_batching = true;
  Wait(10);
  WaitingView& candidate = Wait(20);
  candidate.depends_on = 101;
  candidate.depends_until = 10;

  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 10}, Row{102, 20}));
}

// ---- Progress

TEST_F(SchedulerTest, PinsYieldToTheFirstOneWaitingWhenNothingRuns) {
  snapshot_.num_available_blocks = 2;
  snapshot_.num_pinned_idle_blocks = 2;
  Wait(60);
  Wait(5);

  Plan();

  EXPECT_THAT(plan_.admitted, IsEmpty());
  EXPECT_EQ(plan_.yield_pins_blocks, 4u);
}

TEST_F(SchedulerTest, PinsStayWhileSomethingRuns) {
  snapshot_.num_available_blocks = 2;
  snapshot_.num_pinned_idle_blocks = 2;
  Run(21, 20);
  Wait(60);

  Plan();

  EXPECT_THAT(plan_.scheduled, ElementsAre(Row{1, 1}));
  EXPECT_EQ(plan_.yield_pins_blocks, 0u);
}

// Two beam searches, each with one sequence in and one out, and no block left: the newer gives way.
TEST_F(SchedulerTest, TheNewestBeamThatOnlyWaitsGivesWayToTheFirstOneWaiting) {
  snapshot_.num_available_blocks = 0;
  Run(20, 20);
  Run(20, 20);
  Wait(20).arrival = 1;
  Wait(20).arrival = 2;

  Plan();

  EXPECT_EQ(plan_.preempt, 2u);
  EXPECT_THAT(plan_.admitted, IsEmpty());
}

TEST_F(SchedulerTest, BeamsThatWaitForASlotDoNotBlockEachOther) {
  snapshot_.limits.max_num_seqs = 2;
  Run(20, 20);
  Run(20, 20);
  Wait(20).arrival = 1;
  Wait(20).arrival = 2;

  EXPECT_EQ(Plan().preempt, 2u);

  // Also when the engine shows no candidates, for want of a slot.
  snapshot_.waiting.clear();
  EXPECT_EQ(Plan().preempt, 2u);
}

TEST_F(SchedulerTest, ABeamThatOnlyWaitsDoesNotKeepAMoreUrgentRequestOut) {
  snapshot_.num_available_blocks = 0;
  Run(20, 20);
  WaitingView& urgent = Wait(20);
  urgent.arrival = 5;
  urgent.priority = -1;
  Wait(20).arrival = 1;

  EXPECT_EQ(Plan().preempt, 1u);
}

TEST_F(SchedulerTest, ABeamIsNotPreemptedForItsOwnSibling) {
  snapshot_.num_available_blocks = 1;
  snapshot_.num_pinned_idle_blocks = 3;
  Run(20, 20);
  Wait(20).arrival = 1;  // 2 blocks

  Plan();

  EXPECT_EQ(plan_.preempt, kNoSlot);
  EXPECT_EQ(plan_.yield_pins_blocks, 2u);
}

TEST_F(SchedulerTest, TheWatermarkDoesNotKeepASiblingOut) {
  snapshot_.limits.watermark_blocks = 4;
  snapshot_.num_available_blocks = 2;
  Run(20, 20);
  Wait(20).arrival = 1;

  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 20}));
}

TEST_F(SchedulerTest, NothingToDoIsAnEmptyPlan) {
  Plan();

  EXPECT_FALSE(plan_.changes_holders());
  EXPECT_THAT(plan_.scheduled, IsEmpty());
  EXPECT_THAT(plan_.admitted, IsEmpty());
}

// A plan that is used again keeps nothing of the one before.
TEST_F(SchedulerTest, APlanReplacesTheOneBefore) {
  snapshot_.num_available_blocks = 0;
  Run(33, 32);
  Run(21, 20);
  ASSERT_TRUE(Plan().changes_holders());

  snapshot_.num_available_blocks = 1;
  Plan();

  EXPECT_FALSE(plan_.changes_holders());
  EXPECT_THAT(plan_.scheduled, ElementsAre(Row{1, 1}, Row{2, 1}));
}

}  // namespace
}  // namespace octavo::engine
