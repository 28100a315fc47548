#include "engine/snapshot_builder.h"

#include <algorithm>
#include <limits>

namespace octavo::engine {
namespace {

// Units of sequences that live alone are numbered by slot, beam searches by their arrival.
constexpr uint32_t kBeamUnit = 0x80000000u;

int64_t CommonPrefix(const std::vector<TokenId>& a, const std::vector<TokenId>& b) {
  const size_t length = std::min(a.size(), b.size());
  return std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(length), b.begin())
             .first -
         a.begin();
}

}  // namespace

int64_t MaxCachedTokens(const SequenceState& sequence) {
  const RequestState& request = *sequence.request;
  if (request.wants_prompt_logprobs()) {
    return static_cast<int64_t>(request.output.prompt_logprobs.size());
  }
  return sequence.num_known() - 1;
}

uint32_t NumSequences(const RequestState& request) {
  return static_cast<uint32_t>(request.beams ? request.request.beam_search->beam_width
                                             : request.params().n);
}

uint32_t SnapshotBuilder::SlotsToReserve(const RequestState& request) const {
  if (request.prompt_is_computed || !options_.shares_blocks()) return 0;
  return NumSequences(request) - 1;
}

void SnapshotBuilder::Build(SchedulerSnapshot* snapshot) const {
  snapshot->limits = options_.limits;
  snapshot->num_available_blocks = cache_.num_available_blocks();
  snapshot->num_pinned_idle_blocks = cache_.stats().num_pinned_idle_blocks;
  if (options_.mode == KvCacheMode::kContiguous) {
    // Every sequence has its whole reservation or none: slots are the limit, not blocks.
    snapshot->num_available_blocks = std::numeric_limits<uint32_t>::max() / 2;
  }
  snapshot->num_reserved_slots = 0;
  snapshot->num_free_swap_blocks = swap_.num_free();
  snapshot->seconds_per_swapped_block = options_.seconds_per_swapped_block;
  snapshot->running.clear();
  snapshot->waiting.clear();
  AddRunning(snapshot);
  AddWaiting(snapshot);
}

void SnapshotBuilder::AddRunning(SchedulerSnapshot* snapshot) const {
  for (const SequenceSlot slot : state_.running()) {
    const SequenceState& sequence = state_.at(slot);
    const RequestState& request = *sequence.request;
    RunningView view;
    view.slot = slot;
    view.priority = state_.PriorityOf(sequence);
    view.arrival = request.arrival;
    view.num_tokens = sequence.num_known();
    view.num_computed = sequence.num_computed();
    view.capacity_tokens = sequence.cache.capacity_tokens();
    view.tail_is_shared = sequence.cache.tail_is_shared();
    view.num_held_blocks = static_cast<uint32_t>(sequence.cache.block_ids().size());
    view.unit = request.beams ? kBeamUnit | static_cast<uint32_t>(request.arrival) : slot;
    snapshot->running.push_back(view);
    snapshot->num_reserved_slots += SlotsToReserve(request);
  }
}

void SnapshotBuilder::AddWaiting(SchedulerSnapshot* snapshot) const {
  if (state_.waiting().empty()) return;
  const int64_t taken_slots =
      static_cast<int64_t>(snapshot->running.size()) + snapshot->num_reserved_slots;
  const int64_t free_slots = int64_t{snapshot->limits.max_num_seqs} - taken_slots;
  int64_t free_budget = snapshot->limits.max_num_batched_tokens;
  for (const RunningView& view : snapshot->running) {
    free_budget -= view.num_tokens - view.num_computed;
  }
  // With nobody going on the first one must be seen, whatever its size: the running ones may be
  // beams that wait for it.
  const bool somebody_goes_on = free_budget < snapshot->limits.max_num_batched_tokens;
  if (somebody_goes_on &&
      (free_slots <= 0 || free_budget <= 0 || snapshot->limits.static_batching)) {
    return;
  }

  int64_t num_independent = 0;
  for (const SequenceSlot slot : state_.waiting()) {
    const SequenceState& sequence = state_.at(slot);
    WaitingView view = ViewOf(slot, sequence);
    FindDependency(*snapshot, sequence, &view);
    if (view.depends_on == kNoSlot) ++num_independent;
    snapshot->waiting.push_back(view);
    if (num_independent >= std::max<int64_t>(free_slots, 1)) break;
    if (snapshot->waiting.size() >= 2 * size_t{snapshot->limits.max_num_seqs}) break;
  }
}

WaitingView SnapshotBuilder::ViewOf(SequenceSlot slot, const SequenceState& sequence) const {
  WaitingView view;
  view.slot = slot;
  view.priority = state_.PriorityOf(sequence);
  view.arrival = sequence.request->arrival;
  view.num_tokens = sequence.num_known();
  view.num_swapped = sequence.swapped.num_tokens;
  view.num_slots = 1 + SlotsToReserve(*sequence.request);
  if (options_.shares_blocks()) {
    const kvcache::PrefixMatch match =
        cache_.Match(sequence.request->root, sequence.tokens, MaxCachedTokens(sequence));
    view.num_cached = match.num_tokens;
    view.num_shared_blocks = match.num_shared_blocks;
    view.num_idle_blocks = match.num_idle_blocks;
  }
  return view;
}

// A sequence that computes at least a block more of the same tokens than the cache holds: waiting
// for its commit is cheaper than computing them too.
void SnapshotBuilder::FindDependency(const SchedulerSnapshot& snapshot,
                                     const SequenceState& sequence, WaitingView* view) const {
  if (!options_.shares_blocks() || !options_.cache.enable_prefix_caching) return;
  const int64_t most = MaxCachedTokens(sequence);
  const int64_t worthwhile =
      std::max(view->num_cached, view->num_swapped) + options_.cache.block_size_tokens;
  if (most < worthwhile) return;
  const auto consider = [&](SequenceSlot slot, int64_t num_computed) {
    const SequenceState& other = state_.at(slot);
    if (other.num_known() - num_computed <= 1 || other.request->root != sequence.request->root) {
      return false;
    }
    // The token that makes it worthwhile first: most others differ there, and the rest need not be
    // compared.
    const auto last = static_cast<size_t>(worthwhile - 1);
    if (other.tokens.size() <= last || other.tokens[last] != sequence.tokens[last]) return false;
    const int64_t common = std::min(CommonPrefix(other.tokens, sequence.tokens), most);
    if (common < worthwhile || common <= num_computed) return false;
    view->depends_on = slot;
    view->depends_until = common;
    return true;
  };
  for (const RunningView& other : snapshot.running) {
    if (consider(other.slot, other.num_computed)) return;
  }
  for (const WaitingView& other : snapshot.waiting) {
    if (consider(other.slot, std::max(other.num_cached, other.num_swapped))) return;
  }
}

}  // namespace octavo::engine
