#pragma once

// Purpose:    what the scheduler sees, and what it decides: plain data on both sides, so that a
//             decision can be tested, printed and replayed without an engine.
// Ownership:  values; the vectors keep their capacity from step to step.
// Threading:  plain data.
// Invariants: running and waiting are in scheduling order: by (priority, arrival), the first is the
//             most urgent. A sequence is in at most one of them.

#include <cstdint>
#include <vector>

namespace octavo::engine {

using SequenceId = uint32_t;  // the engine's number of a live sequence
inline constexpr SequenceId kNoSequence = 0xffffffff;

enum class PreemptionMode { kRecompute, kSwap };

// A sequence that holds blocks.
struct RunningView {
  SequenceId id = kNoSequence;
  int32_t priority = 0;      // lower = more urgent
  uint64_t arrival = 0;      // order of submission
  int64_t num_tokens = 0;    // known: prompt and output so far
  int64_t num_computed = 0;  // of them, with K and V in the cache; == num_tokens: it waits for the
                             // others of its beam search, and has nothing to compute
  int64_t capacity_tokens = 0;  // positions that its blocks can hold
  bool tail_is_shared = false;  // its next write copies a block first
  uint32_t num_held_blocks = 0;
  uint32_t unit = 0;  // sequences of one unit are preempted together (a beam search)
};

// A sequence that holds no block: new, or preempted.
struct WaitingView {
  SequenceId id = kNoSequence;
  int32_t priority = 0;
  uint64_t arrival = 0;
  int64_t num_tokens = 0;
  int64_t num_cached = 0;          // leading tokens that it would find in the cache
  int64_t num_swapped = 0;         // leading tokens that lie in the swap space (0 = not swapped)
  uint32_t num_shared_blocks = 0;  // whole blocks of num_cached
  uint32_t num_idle_blocks = 0;    // of them, those that count as available now
  uint32_t num_sequences = 1;      // to make room for: n of a request that will fork
  // A sequence that is computing, or will before this one, tokens that this one needs next, up to
  // position depends_until (kNoSequence = none). This one waits while that one runs.
  SequenceId depends_on = kNoSequence;
  int64_t depends_until = 0;
};

struct SchedulerLimits {
  int32_t block_size_tokens = 16;
  int64_t max_num_batched_tokens = 0;  // of one step
  uint32_t max_num_seqs = 0;           // that run at once
  uint32_t watermark_blocks = 0;       // kept free when a sequence is admitted beside others
  bool static_batching = false;        // baseline: admit only when nothing runs
};

struct SchedulerSnapshot {
  SchedulerLimits limits;
  uint32_t num_available_blocks = 0;    // free, or cached and neither held nor pinned
  uint32_t num_pinned_idle_blocks = 0;  // would become available if pins yield
  uint32_t num_reserved_sequences = 0;  // set aside for forks that are still to come
  uint32_t num_free_swap_blocks = 0;
  // A sequence was preempted since the last step: what it gave up is for those that go on, so that
  // nobody is admitted, unless nothing else can go on.
  bool preempted_this_round = false;
  // Seconds to compute a token at a position, and to copy a block out and in again: for the choice
  // between recompute and swap.
  double seconds_per_token = 0.0;
  double seconds_per_swapped_block = 0.0;
  std::vector<RunningView> running;
  std::vector<WaitingView> waiting;  // the candidates for this step, in order
};

// One sequence's part of a step.
struct ScheduledSequence {
  SequenceId id = kNoSequence;
  int64_t num_tokens = 0;  // to compute now

  bool operator==(const ScheduledSequence&) const = default;
};

struct StepPlan {
  // Set: do only this, then plan again on a new snapshot.
  SequenceId preempt = kNoSequence;  // with all of its unit
  PreemptionMode preemption_mode = PreemptionMode::kRecompute;
  uint32_t yield_pins_blocks = 0;  // > 0: end pins until this many blocks are available

  // Else: the step. Decodes first, then prefills, in scheduling order.
  std::vector<ScheduledSequence> scheduled;  // of the running
  std::vector<ScheduledSequence> admitted;   // of the waiting: to be given blocks first

  bool operator==(const StepPlan&) const = default;
  bool changes_holders() const { return preempt != kNoSequence || yield_pins_blocks > 0; }
  void Clear() {
    preempt = kNoSequence;
    preemption_mode = PreemptionMode::kRecompute;
    yield_pins_blocks = 0;
    scheduled.clear();
    admitted.clear();
  }
};

}  // namespace octavo::engine
