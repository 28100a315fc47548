#pragma once

// Purpose:    snapshots for the scheduler's tests, sequence by sequence. Blocks hold 16 tokens.
// Ownership:  the fixture owns the snapshot and the plan.
// Threading:  one thread at a time.
// Invariants: sequences get ids and arrivals in the order in which they are added.

#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>

#include "engine/scheduling/scheduler.h"

namespace octavo::engine {

inline void PrintTo(const ScheduledSequence& sequence, std::ostream* out) {
  *out << "id " << sequence.id << ": " << sequence.num_tokens;
}

// Running sequences have ids from 1, waiting ones from 101.
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
    view.id = static_cast<SequenceId>(snapshot_.running.size() + 1);
    view.arrival = view.id;
    view.unit = view.id;
    view.num_tokens = num_tokens;
    view.num_computed = num_computed;
    view.num_held_blocks = static_cast<uint32_t>((num_computed + 15) / 16);
    view.capacity_tokens = int64_t{view.num_held_blocks} * 16;
    snapshot_.running.push_back(view);
    return snapshot_.running.back();
  }

  WaitingView& Wait(int64_t num_tokens) {
    WaitingView view;
    view.id = static_cast<SequenceId>(snapshot_.waiting.size() + 101);
    view.arrival = view.id;
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

}  // namespace octavo::engine
