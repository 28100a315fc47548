#pragma once

// Purpose:    what can never be served, told when it is submitted and with numbers, instead of
//             waiting for ever: more blocks than the pool has, or more sequences than may run.
// Ownership:  values.
// Threading:  pure.
// Invariants: a request that is not refused can run to its longest end when it is alone, whatever
//             was preempted before. See docs/contracts/scheduling.md#refusal.

#include <cstdint>
#include <optional>

#include "engine/scheduling/step_plan.h"

namespace octavo::engine {

// The most that a request can come to. Its sequences live alone (n completions: each is a unit of
// its own), or in lockstep (a beam search: all must hold their blocks at once).
struct RequestDemand {
  int64_t num_prompt_tokens = 0;
  int64_t max_output_tokens = 0;
  uint32_t num_sequences = 1;
  bool in_lockstep = false;
  bool shares_blocks = true;  // sequences find each other's blocks: forks and the prefix cache
};

struct Refusal {
  enum class Reason { kBlocks, kSequences };
  Reason reason = Reason::kBlocks;
  int64_t num_needed = 0;  // of blocks, or of sequences at once
  int64_t limit = 0;       // what there is
};

// Blocks that the request needs when it runs alone; the largest int64_t if that many cannot be
// counted. REQUIRES: block_size_tokens > 0, no negative count.
int64_t NumBlocksAlone(const RequestDemand& demand, int32_t block_size_tokens);

// Why the request can never be served; nullopt = it can.
std::optional<Refusal> RefuseIfImpossible(const RequestDemand& demand, uint32_t num_blocks,
                                          const SchedulerLimits& limits);

}  // namespace octavo::engine
