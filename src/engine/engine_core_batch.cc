// The part of EngineCore that comes before a step: who takes part, with which blocks and rows.

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/engine_core.h"
#include "engine/scheduling/scheduler.h"

namespace octavo::engine {

void EngineCore::MakePlan() {
  snapshot_.preempted_this_round = false;
  do {
    snapshot_builder_.Build(&snapshot_);
    snapshot_.seconds_per_token = seconds_per_token_;
    Scheduler::Plan(snapshot_, &plan_);
    if (plan_.preempt != kNoSequence) {
      Preempt(plan_);
      snapshot_.preempted_this_round = true;
    } else if (plan_.yield_pins_blocks > 0) {
      OCTAVO_DCHECK(plan_.yield_pins_blocks > cache_.num_available_blocks(), "pins yield for more");
      cache_.YieldPins(plan_.yield_pins_blocks - cache_.num_available_blocks());
    }
  } while (plan_.changes_holders());
  OCTAVO_CHECK(!plan_.scheduled.empty() || !plan_.admitted.empty(),
               "something can go on while there is work");
}

void EngineCore::Preempt(const StepPlan& plan) {
  const RequestState& request = *state_.at(plan.preempt).request;
  if (!request.beams) return PreemptOne(plan.preempt, plan.preemption_mode);
  const std::vector<SequenceId> unit = request.live;
  for (const SequenceId id : unit) {
    if (state_.at(id).phase == SequencePhase::kRunning) PreemptOne(id, plan.preemption_mode);
  }
}

void EngineCore::PreemptOne(SequenceId id, PreemptionMode mode) {
  SequenceState& sequence = state_.at(id);
  // Whoever comes back computes one token at least: its logits are wanted (again).
  const int64_t num_kept = std::min(sequence.num_computed(), sequence.num_known() - 1);
  moves_.clear();
  const bool swaps = mode == PreemptionMode::kSwap && num_kept > 0 &&
                     swap_.Take(sequence.cache.block_ids(), num_kept,
                                options_.cache.block_size_tokens, &sequence.swapped, &moves_);
  if (swaps) executor_.SwapOut(moves_);
  ++(swaps ? stats_.num_preemptions_swap : stats_.num_preemptions_recompute);
  ++sequence.request->output.num_preemptions;
  sequence.next.reset();
  GiveBack(id);
}

// Back to the waiting ones, without blocks.
void EngineCore::GiveBack(SequenceId id) {
  cache_.Release(state_.at(id).cache);
  state_.SetPhase(id, SequencePhase::kWaiting);
}

// Gives an admitted sequence what the cache and the swap space hold of it; false if the pool could
// not, against the plan's count.
bool EngineCore::Admit(const ScheduledSequence& scheduled) {
  SequenceState& sequence = state_.at(scheduled.id);
  RequestState& request = *sequence.request;
  EnsureCompletions(request);
  if (request.request.explain && request.times.admitted < 0) {
    request.output.explanation = cache_.Explain(request.root, request.request.prompt_token_ids);
  }
  if (options_.mode == KvCacheMode::kContiguous) {
    if (!cache_.ReserveContiguous(sequence.cache, options_.blocks_per_context())) return false;
  } else if (!cache_.Acquire(sequence.cache, sequence.tokens, MaxCachedTokens(sequence),
                             &copies_)) {
    return false;
  }
  if (request.times.admitted < 0) {
    request.times.admitted = executor_.Now();
    request.output.num_cached_tokens = static_cast<int32_t>(sequence.num_computed());
    stats_.num_prompt_tokens += static_cast<uint64_t>(request.num_prompt_tokens());
    const bool is_looked_up = options_.shares_blocks() && options_.cache.enable_prefix_caching &&
                              !request.request.params.prompt_logprobs;
    if (is_looked_up) {
      stats_.num_queried_tokens += static_cast<uint64_t>(request.num_prompt_tokens());
    }
    stats_.num_cached_tokens += static_cast<uint64_t>(sequence.num_computed());
  }
  state_.SetPhase(scheduled.id, SequencePhase::kRunning);
  return true;
}

// Brings back what was swapped out and is not cached; false if the pool has no room. The blocks are
// moved at once: when they are committed others may take them, or they may be given back as equal
// to others.
bool EngineCore::Restore(SequenceState& sequence) {
  if (sequence.swapped.num_tokens > sequence.num_computed()) {
    if (!cache_.Reserve(sequence.cache, sequence.swapped.num_tokens, &copies_)) return false;
    moves_.clear();
    SwapSpace::ListReturn(sequence.swapped, sequence.cache.block_ids(), sequence.num_computed(),
                          options_.cache.block_size_tokens, &moves_);
    CopyBlocks();
    executor_.SwapIn(moves_);
    cache_.Commit(sequence.cache, sequence.tokens, sequence.swapped.num_tokens);
  }
  sequence.swapped.Reset();
  return true;
}

void EngineCore::CopyBlocks() {
  if (!copies_.empty()) executor_.CopyBlocks(copies_);
  copies_.clear();
}

// All admitted sequences take what is cached before anyone takes new blocks, which may evict it.
void EngineCore::FillBatch() {
  batch_.clear();
  batch_tokens_.clear();
  batch_slices_.clear();
  batch_output_rows_.clear();
  admitted_.clear();
  for (const ScheduledSequence& scheduled : plan_.admitted) {
    if (Admit(scheduled)) admitted_.push_back(scheduled);
  }
  for (const ScheduledSequence& scheduled : admitted_) {
    if (!Restore(state_.at(scheduled.id))) GiveBack(scheduled.id);
  }
  for (const ScheduledSequence& scheduled : plan_.scheduled) AddToBatch(scheduled);
  for (const ScheduledSequence& scheduled : admitted_) {
    if (state_.at(scheduled.id).phase == SequencePhase::kRunning) AddToBatch(scheduled);
  }
  SortSharedFirst();
  FillRows();
  CopyBlocks();
}

void EngineCore::AddToBatch(const ScheduledSequence& scheduled) {
  SequenceState& sequence = state_.at(scheduled.id);
  const int64_t begin = sequence.num_computed();
  const int64_t end = std::min(begin + scheduled.num_tokens, sequence.num_known());
  if (!cache_.Reserve(sequence.cache, end, &copies_)) {
    GiveBack(scheduled.id);  // nothing is lost but time
    return;
  }
  BatchEntry entry;
  entry.id = scheduled.id;
  entry.num_rows = end - begin;
  const bool reports = sequence.request->wants_prompt_logprobs();
  entry.num_output_rows = reports ? entry.num_rows : end == sequence.num_known() ? 1 : 0;
  batch_.push_back(entry);
}

// Decoding sequences that share leading blocks become neighbours, so that the model may visit those
// blocks once for all of them.
void EngineCore::SortSharedFirst() {
  const auto decodes_end = std::stable_partition(
      batch_.begin(), batch_.end(), [](const BatchEntry& entry) { return entry.num_rows == 1; });
  std::sort(batch_.begin(), decodes_end, [this](const BatchEntry& a, const BatchEntry& b) {
    return std::ranges::lexicographical_compare(state_.at(a.id).cache.block_ids(),
                                                state_.at(b.id).cache.block_ids());
  });
}

void EngineCore::FillRows() {
  for (const BatchEntry& entry : batch_) {
    const SequenceState& sequence = state_.at(entry.id);
    const int64_t begin = sequence.num_computed();
    const auto first_row = static_cast<int32_t>(batch_tokens_.size());
    batch_tokens_.insert(batch_tokens_.end(), sequence.tokens.begin() + begin,
                         sequence.tokens.begin() + begin + entry.num_rows);
    batch_slices_.push_back({entry.num_rows, begin, sequence.cache.block_ids()});
    const auto end_row = first_row + static_cast<int32_t>(entry.num_rows);
    for (auto row = end_row - static_cast<int32_t>(entry.num_output_rows); row < end_row; ++row) {
      batch_output_rows_.push_back(row);
    }
  }
  stats_.num_computed_tokens += batch_tokens_.size();
}

void EngineCore::CommitBatch() {
  for (const BatchEntry& entry : batch_) {
    SequenceState& sequence = state_.at(entry.id);
    cache_.Commit(sequence.cache, sequence.tokens, sequence.num_computed() + entry.num_rows);
  }
}

}  // namespace octavo::engine
