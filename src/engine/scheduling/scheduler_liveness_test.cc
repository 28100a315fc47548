// Everything that is admitted ends, whatever the pool: programs of requests run in a world of
// integers (test_world.h). A failing program is found again by its number.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include "engine/scheduling/test_world.h"

namespace octavo::engine {
namespace {

WorldOptions EightBlocks() {
  WorldOptions options;
  options.limits.block_size_tokens = 16;
  options.limits.max_num_batched_tokens = 256;
  options.limits.max_num_seqs = 16;
  options.num_blocks = 8;
  return options;
}

// ---- Case D1: a pool that is far too small

TEST(SchedulerLivenessTest, SixRequestsThatEachFillThePoolAllFinish) {
  for (const uint32_t num_swap_blocks : {0u, 16u}) {
    WorldOptions options = EightBlocks();
    options.num_swap_blocks = num_swap_blocks;
    options.seconds_per_swapped_block = num_swap_blocks > 0 ? 0.0 : 1e9;
    World world(options);
    for (int i = 0; i < 6; ++i) {
      ASSERT_TRUE(world.Submit({.num_prompt_tokens = 60, .num_output_tokens = 60}));
    }

    EXPECT_TRUE(world.RunAll(6 * 120));

    EXPECT_EQ(world.num_finished(), 6);
    EXPECT_EQ(world.num_tokens_out(), 6 * 60);  // none lost, none twice
    EXPECT_GE(world.num_preemptions(), 1);
    EXPECT_LE(world.num_preemptions(), 6 * 60 / 16 + 6);  // at most one a block of output
    EXPECT_EQ(world.num_swaps() > 0, num_swap_blocks > 0);
  }
}

TEST(SchedulerLivenessTest, WhatCanNeverFitIsRefusedAndTheFiveBehindItRun) {
  World world(EightBlocks());

  EXPECT_FALSE(world.Submit({.num_prompt_tokens = 100, .num_output_tokens = 29}));
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(world.Submit({.num_prompt_tokens = 8, .num_output_tokens = 8}));
  }

  EXPECT_TRUE(world.RunAll(100));
  EXPECT_EQ(world.num_finished(), 5);
  EXPECT_EQ(world.num_preemptions(), 0);
}

// Case D3's shape: eight streams that must preempt each other.
TEST(SchedulerLivenessTest, EightLongStreamsFinishThoughTheyPreemptEachOther) {
  WorldOptions options = EightBlocks();
  options.num_blocks = 40;
  World world(options);
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(world.Submit({.num_prompt_tokens = 32, .num_output_tokens = 200}));
  }

  EXPECT_TRUE(world.RunAll(8 * 200));
  EXPECT_GE(world.num_preemptions(), 1);
  EXPECT_EQ(world.num_tokens_out(), 8 * 200);
}

TEST(SchedulerLivenessTest, PinsThatHoldTheWholePoolYield) {
  WorldOptions options = EightBlocks();
  options.num_pinned_blocks = 8;
  World world(options);
  ASSERT_TRUE(world.Submit({.num_prompt_tokens = 60, .num_output_tokens = 60}));

  EXPECT_TRUE(world.RunAll(100));
  EXPECT_EQ(world.num_pinned(), 0);
}

TEST(SchedulerLivenessTest, TwoBeamSearchesThatEachFillThePoolBothFinish) {
  for (const bool static_batching : {false, true}) {
    WorldOptions options = EightBlocks();
    options.limits.static_batching = static_batching;
    World world(options);
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(world.Submit({.num_prompt_tokens = 20,
                                .num_output_tokens = 12,
                                .num_sequences = 4,
                                .in_lockstep = true}));
    }

    EXPECT_TRUE(world.RunAll(200));
    EXPECT_EQ(world.num_finished(), 8);
  }
}

// ---- Random programs

class Program {
 public:
  explicit Program(uint32_t seed) : random_(seed) {
    options_.seed = seed;
    SchedulerLimits& limits = options_.limits;
    limits.block_size_tokens = Toss(2) ? 4 : 16;
    limits.max_num_batched_tokens = Toss(2) ? Draw(1, 8) : Draw(8, 100);
    limits.max_num_seqs = static_cast<uint32_t>(Draw(1, 12));
    limits.watermark_blocks = static_cast<uint32_t>(Toss(2) ? 0 : Draw(1, 4));
    limits.static_batching = Toss(6);
    options_.num_blocks = static_cast<uint32_t>(Toss(2) ? Draw(1, 12) : Draw(8, 40));
    options_.num_swap_blocks = static_cast<uint32_t>(Toss(2) ? 0 : Draw(0, 30));
    options_.num_pinned_blocks = Toss(2) ? 0 : Draw(0, options_.num_blocks);
    options_.seconds_per_swapped_block = static_cast<double>(Draw(0, 20));
    options_.leaves_cached_blocks = Toss(2);
  }

  const WorldOptions& options() const { return options_; }

  WorldRequest NextRequest() {
    arrival_ += Toss(2) ? 0 : Draw(0, 20);
    WorldRequest request;
    request.priority = static_cast<int32_t>(Toss(2) ? 0 : Draw(-1, 1));
    request.num_prompt_tokens = Toss(2) ? Draw(1, 16) : Draw(1, 60);
    request.num_output_tokens = Draw(1, 60);
    if (Toss(3)) request.num_sequences = static_cast<uint32_t>(Draw(1, 4));
    request.in_lockstep = Toss(2);
    request.arrives_at_step = arrival_;
    if (Toss(6)) request.aborts_at_step = arrival_ + Draw(0, 40);
    return request;
  }
  int64_t NumRequests() { return Draw(1, 16); }

 private:
  int64_t Draw(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  bool Toss(int64_t one_in) { return Draw(1, one_in) == 1; }

  std::mt19937 random_;
  WorldOptions options_;
  int64_t arrival_ = 0;
};

struct Totals {
  int64_t num_refused = 0;
  int64_t num_finished = 0;
  int64_t num_preemptions = 0;
  int64_t num_swaps = 0;
};

// In each step the most urgent one of those that run goes on, and while it is not among them, those
// that run end. So the steps are bounded by a small multiple of the tokens of all.
void RunProgram(uint32_t number, Totals* totals) {
  Program program(number);
  World world(program.options());
  int64_t max_steps = 20;
  int64_t last_arrival = 0;
  for (int64_t i = program.NumRequests(); i > 0; --i) {
    const WorldRequest request = program.NextRequest();
    if (!world.Submit(request)) {
      ++totals->num_refused;
      continue;
    }
    last_arrival = request.arrives_at_step;
    max_steps +=
        2 * request.num_sequences * (request.num_prompt_tokens + request.num_output_tokens);
  }
  ASSERT_TRUE(world.RunAll(max_steps + last_arrival)) << "program " << number;
  totals->num_finished += world.num_finished();
  totals->num_preemptions += world.num_preemptions();
  totals->num_swaps += world.num_swaps();
}

TEST(SchedulerLivenessTest, EveryAdmittedSequenceOfRandomProgramsEnds) {
  Totals totals;
  for (uint32_t number = 0; number < 10000; ++number) {
    RunProgram(number, &totals);
    if (HasFatalFailure()) return;
  }
  // The programs do what they are for.
  EXPECT_GT(totals.num_refused, 10000);
  EXPECT_GT(totals.num_finished, 30000);
  EXPECT_GT(totals.num_preemptions, 10000);
  EXPECT_GT(totals.num_swaps, 1000);
}

}  // namespace
}  // namespace octavo::engine
