#pragma once

// Purpose:    decides what the next step computes: who goes on, who is admitted, who must give way.
// Ownership:  holds nothing; writes the plan that it is handed.
// Threading:  pure; any thread, as long as the snapshot and the plan are not shared.
// Invariants: the same snapshot gives the same plan. A plan keeps within budget,
//             max_num_seqs and blocks. The most urgent running sequence that has something to
//             compute is in the step, or room for it is made first. No unit gives way to a less
//             urgent one. See docs/contracts/scheduling.md.

#include "engine/scheduling/step_plan.h"

namespace octavo::engine {

class Scheduler {
 public:
  // O(running + candidates), and a look at the running ones for each candidate that waits for
  // another sequence's tokens. Allocates nothing once the plan's vectors have room.
  // REQUIRES: limits.block_size_tokens > 0, limits.max_num_batched_tokens > 0; both lists are in
  // scheduling order; capacity_tokens >= num_computed; num_cached < num_tokens, and
  // num_shared_blocks == num_cached / block_size_tokens.
  static void Plan(const SchedulerSnapshot& snapshot, StepPlan* plan);
};

}  // namespace octavo::engine
