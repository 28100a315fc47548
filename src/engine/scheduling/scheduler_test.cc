// The rules of docs/contracts/scheduling.md for sequences that hold blocks, one by one, with
// figures worked out by hand.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/scheduling/test_snapshot.h"

namespace octavo::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Row = ScheduledSequence;

// The example of docs/contracts/scheduling.md. Running: A is 1, B 2, C 3; waiting: from 101.
TEST_F(SchedulerTest, TheContractsExample) {
  const auto start_step = [this](uint32_t num_available) {
    snapshot_.limits.max_num_batched_tokens = 32;
    snapshot_.num_available_blocks = num_available;
    snapshot_.running.clear();
    snapshot_.waiting.clear();
  };

  start_step(10);  // 1
  Wait(20);
  Wait(40);
  Wait(50);
  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 20}, Row{102, 12}));

  start_step(7);  // 2
  Run(21, 20);
  Run(40, 12);
  Wait(50);
  EXPECT_THAT(Plan().scheduled, ElementsAre(Row{1, 1}, Row{2, 28}));
  EXPECT_THAT(plan_.admitted, ElementsAre(Row{101, 3}));

  start_step(4);  // 3
  Run(22, 21);
  Run(41, 40);
  Run(50, 3);
  EXPECT_THAT(Plan().scheduled, ElementsAre(Row{1, 1}, Row{2, 1}, Row{3, 30}));

  start_step(2);  // 4
  Run(23, 22);
  Run(42, 41);
  Run(50, 33);
  EXPECT_THAT(Plan().scheduled, ElementsAre(Row{1, 1}, Row{2, 1}, Row{3, 17}));

  start_step(1);  // 11
  Run(30, 29);
  Run(49, 48);
  Run(57, 56);
  EXPECT_THAT(Plan().scheduled, ElementsAre(Row{1, 1}, Row{2, 1}, Row{3, 1}));

  start_step(0);  // 14
  Run(33, 32);
  Run(52, 51);
  Run(60, 59);
  EXPECT_EQ(Plan().preempt, 3u);

  start_step(4);  // 14, second round
  Run(33, 32);
  Run(52, 51);
  Wait(60);
  snapshot_.preempted_this_round = true;
  EXPECT_THAT(Plan().scheduled, ElementsAre(Row{1, 1}, Row{2, 1}));
  EXPECT_THAT(plan_.admitted, IsEmpty());

  start_step(3);  // 15
  Run(34, 33);
  Run(53, 52);
  Wait(60);
  snapshot_.preempted_this_round = false;
  EXPECT_THAT(Plan().admitted, ElementsAre(Row{101, 30}));
  snapshot_.waiting[0].num_cached = 48;
  snapshot_.waiting[0].num_shared_blocks = 3;
  snapshot_.waiting[0].num_idle_blocks = 3;
  EXPECT_THAT(Plan().admitted, IsEmpty());
}

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

  EXPECT_EQ(plan_.preempt, kNoSequence);
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

  EXPECT_EQ(plan_.preempt, kNoSequence);
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

TEST_F(SchedulerTest, NothingYieldsWhenTheUnitAlreadyTakesWhatThereIs) {
  snapshot_.num_available_blocks = 1;
  Run(33, 32).unit = 9;
  Run(33, 32).unit = 9;

  Plan();

  EXPECT_FALSE(plan_.changes_holders());
  EXPECT_THAT(plan_.scheduled, ElementsAre(Row{1, 1}));
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

TEST_F(SchedulerTest, BeamsThatWaitForAPlaceDoNotBlockEachOther) {
  snapshot_.limits.max_num_seqs = 2;
  Run(20, 20);
  Run(20, 20);
  Wait(20).arrival = 1;
  Wait(20).arrival = 2;

  EXPECT_EQ(Plan().preempt, 2u);

  // Also when the engine shows no candidates, for want of a place.
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

TEST_F(SchedulerTest, ABeamThatOnlyWaitsGivesItsPlaceToAMoreUrgentRequest) {
  snapshot_.limits.max_num_seqs = 1;
  Run(20, 20);
  Wait(20).priority = -1;

  EXPECT_EQ(Plan().preempt, 1u);
}

TEST_F(SchedulerTest, ABeamIsNotPreemptedForItsOwnSibling) {
  snapshot_.num_available_blocks = 1;
  snapshot_.num_pinned_idle_blocks = 3;
  Run(20, 20);
  Wait(20).arrival = 1;  // 2 blocks

  Plan();

  EXPECT_EQ(plan_.preempt, kNoSequence);
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
