#pragma once

// Purpose:    shows the scheduler what is there: the running sequences, and the waiting ones that
//             could be admitted in this step, with what the cache holds for them.
// Ownership:  borrows everything.
// Threading:  the engine thread.
// Invariants: changes nothing. Looks into the cache only for sequences that have a chance: none
//             while max_num_seqs or the whole token budget is reached.

#include "engine/core_options.h"
#include "engine/core_state.h"
#include "engine/scheduling/step_plan.h"
#include "engine/swap_space.h"
#include "octavo/kvcache/kv_cache_manager.h"

namespace octavo::engine {

class SnapshotBuilder {
 public:
  SnapshotBuilder(const CoreOptions& options, const CoreState& state,
                  const kvcache::KvCacheManager& cache, const SwapSpace& swap)
      : options_(options), state_(state), cache_(cache), swap_(swap) {}

  void Build(SchedulerSnapshot* snapshot) const;

 private:
  void AddRunning(SchedulerSnapshot* snapshot) const;
  void AddWaiting(SchedulerSnapshot* snapshot) const;
  WaitingView ViewOf(SequenceId id, const SequenceState& sequence) const;
  void FindDependency(const SchedulerSnapshot& snapshot, const SequenceState& sequence,
                      WaitingView* view) const;
  uint32_t SequencesToReserve(const RequestState& request) const;

  const CoreOptions& options_;
  const CoreState& state_;
  const kvcache::KvCacheManager& cache_;
  const SwapSpace& swap_;
};

// The most tokens that a sequence may take from the cache: all but the one that gives its logits,
// and none that its prompt's log-probabilities still need.
int64_t MaxCachedTokens(const SequenceState& sequence);

// How many sequences a request will have at once.
uint32_t NumSequences(const RequestState& request);

}  // namespace octavo::engine
