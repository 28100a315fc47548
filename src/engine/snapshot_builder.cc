#include "engine/snapshot_builder.h"

#include <algorithm>
#include <limits>

namespace octavo::engine {
namespace {

// Units of sequences that live alone are numbered by id, beam searches by their arrival.
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

uint32_t SnapshotBuilder::SequencesToReserve(const RequestState& request) const {
  if (request.prompt_is_computed || !options_.shares_blocks()) return 0;
  return NumSequences(request) - 1;
}

void SnapshotBuilder::Build(SchedulerSnapshot* snapshot) const {
  snapshot->limits = options_.limits;
  snapshot->num_available_blocks = cache_.num_available_blocks();
  snapshot->num_pinned_idle_blocks = cache_.stats().num_pinned_idle_blocks;
  if (options_.mode == KvCacheMode::kContiguous) {
    // Every sequence has its whole reservation or none: max_num_seqs is the limit, not blocks.
    snapshot->num_available_blocks = std::numeric_limits<uint32_t>::max() / 2;
  }
  snapshot->num_reserved_sequences = 0;
  snapshot->num_free_swap_blocks = swap_.num_free();
  snapshot->seconds_per_swapped_block = options_.seconds_per_swapped_block;
  snapshot->running.clear();
  snapshot->waiting.clear();
  AddRunning(snapshot);
  AddWaiting(snapshot);
}

void SnapshotBuilder::AddRunning(SchedulerSnapshot* snapshot) const {
  for (const SequenceId id : state_.running()) {
    const SequenceState& sequence = state_.at(id);
    const RequestState& request = *sequence.request;
    RunningView view;
    view.id = id;
    view.priority = state_.PriorityOf(sequence);
    view.arrival = request.arrival;
    view.num_tokens = sequence.num_known();
    view.num_computed = sequence.num_computed();
    view.capacity_tokens = sequence.cache.capacity_tokens();
    view.tail_is_shared = sequence.cache.tail_is_shared();
    view.num_held_blocks = static_cast<uint32_t>(sequence.cache.block_ids().size());
    view.unit = request.beams ? kBeamUnit | static_cast<uint32_t>(request.arrival) : id;
    snapshot->running.push_back(view);
    snapshot->num_reserved_sequences += SequencesToReserve(request);
  }
}

void SnapshotBuilder::AddWaiting(SchedulerSnapshot* snapshot) const {
  if (state_.waiting().empty()) return;
  const int64_t num_taken =
      static_cast<int64_t>(snapshot->running.size()) + snapshot->num_reserved_sequences;
  const int64_t num_free = int64_t{snapshot->limits.max_num_seqs} - num_taken;
  int64_t free_budget = snapshot->limits.max_num_batched_tokens;
  for (const RunningView& view : snapshot->running) {
    free_budget -= view.num_tokens - view.num_computed;
  }
  // With nobody going on the first one must be seen, whatever its size: the running ones may be
  // beams that wait for it.
  const bool somebody_goes_on = free_budget < snapshot->limits.max_num_batched_tokens;
  if (somebody_goes_on && (num_free <= 0 || free_budget <= 0 || snapshot->limits.static_batching)) {
    return;
  }

  int64_t num_independent = 0;
  for (const SequenceId id : state_.waiting()) {
    const SequenceState& sequence = state_.at(id);
    WaitingView view = ViewOf(id, sequence);
    FindDependency(*snapshot, sequence, &view);
    if (view.depends_on == kNoSequence) ++num_independent;
    snapshot->waiting.push_back(view);
    if (num_independent >= std::max<int64_t>(num_free, 1)) break;
    if (snapshot->waiting.size() >= 2 * size_t{snapshot->limits.max_num_seqs}) break;
  }
}

WaitingView SnapshotBuilder::ViewOf(SequenceId id, const SequenceState& sequence) const {
  WaitingView view;
  view.id = id;
  view.priority = state_.PriorityOf(sequence);
  view.arrival = sequence.request->arrival;
  view.num_tokens = sequence.num_known();
  view.num_swapped = sequence.swapped.num_tokens;
  view.num_sequences = 1 + SequencesToReserve(*sequence.request);
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
  const auto consider = [&](SequenceId id, int64_t num_computed) {
    const SequenceState& other = state_.at(id);
    if (other.num_known() - num_computed <= 1 || other.request->root != sequence.request->root) {
      return false;
    }
    // The token that makes it worthwhile first: most others differ there, and the rest need not be
    // compared.
    const auto last = static_cast<size_t>(worthwhile - 1);
    if (other.tokens.size() <= last || other.tokens[last] != sequence.tokens[last]) return false;
    const int64_t common = std::min(CommonPrefix(other.tokens, sequence.tokens), most);
    if (common < worthwhile || common <= num_computed) return false;
    view->depends_on = id;
    view->depends_until = common;
    return true;
  };
  for (const RunningView& other : snapshot.running) {
    if (consider(other.id, other.num_computed)) return;
  }
  for (const WaitingView& other : snapshot.waiting) {
    if (consider(other.id, std::max(other.num_cached, other.num_swapped))) return;
  }
}

}  // namespace octavo::engine
