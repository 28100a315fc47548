// What holds for every plan, over random snapshots; and a second scheduler, written from the
// contract in the plainest form, that must make the same plan. RapidCheck prints the seed and the
// smallest failing snapshot's choices.

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "engine/scheduling/scheduler.h"

namespace octavo::engine {
namespace {

// Over the whole range from the first run on.
int64_t Choose(int64_t low, int64_t high) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<int64_t>(low, high + 1));
}
bool Toss() { return Choose(0, 1) == 1; }

SchedulerLimits RandomLimits() {
  SchedulerLimits limits;
  limits.block_size_tokens = Toss() ? 4 : 16;
  limits.max_num_batched_tokens = Choose(1, 60);
  limits.max_num_seqs = static_cast<uint32_t>(Choose(1, 12));
  limits.watermark_blocks = static_cast<uint32_t>(Choose(0, 3));
  limits.static_batching = Choose(0, 5) == 0;
  return limits;
}

RunningView RandomRunning(SequenceId id, int64_t block_size) {
  RunningView view;
  view.id = id;
  view.unit = id;
  view.num_computed = Choose(0, 50);
  view.num_tokens = view.num_computed + (Toss() ? 1 : Choose(0, 30));
  const int64_t num_blocks = (view.num_computed + block_size - 1) / block_size + Choose(0, 1);
  view.num_held_blocks = static_cast<uint32_t>(num_blocks);
  view.capacity_tokens = num_blocks * block_size;
  view.tail_is_shared = Choose(0, 4) == 0;
  return view;
}

WaitingView RandomWaiting(SequenceId id, int64_t block_size, size_t num_sequences_in_use) {
  WaitingView view;
  view.id = id;
  view.num_tokens = Choose(1, 60);
  if (Toss()) view.num_cached = Choose(0, view.num_tokens - 1);
  if (Choose(0, 3) == 0) view.num_swapped = Choose(0, view.num_tokens);
  view.num_shared_blocks = static_cast<uint32_t>(view.num_cached / block_size);
  view.num_idle_blocks = static_cast<uint32_t>(Choose(0, view.num_shared_blocks));
  if (Choose(0, 4) == 0) view.num_sequences = static_cast<uint32_t>(Choose(1, 4));
  if (Choose(0, 2) == 0) {
    view.depends_on =
        static_cast<SequenceId>(Choose(1, static_cast<int64_t>(num_sequences_in_use)));
    view.depends_until = Choose(1, 60);
  }
  return view;
}

// Orders by urgency, as the engine does.
template <typename View>
void OrderByUrgency(std::vector<View>* views) {
  for (View& view : *views) {
    view.priority = static_cast<int32_t>(Choose(0, 2));
    view.arrival = static_cast<uint64_t>(Choose(0, 30));
  }
  std::stable_sort(views->begin(), views->end(), [](const View& a, const View& b) {
    return std::tie(a.priority, a.arrival) < std::tie(b.priority, b.arrival);
  });
}

SchedulerSnapshot RandomSnapshot() {
  SchedulerSnapshot snapshot;
  snapshot.limits = RandomLimits();
  snapshot.num_available_blocks = static_cast<uint32_t>(Toss() ? Choose(0, 4) : Choose(0, 40));
  snapshot.num_pinned_idle_blocks = static_cast<uint32_t>(Toss() ? 0 : Choose(0, 6));
  snapshot.num_reserved_sequences = static_cast<uint32_t>(Choose(0, 2));
  snapshot.num_free_swap_blocks = static_cast<uint32_t>(Choose(0, 10));
  snapshot.preempted_this_round = Toss();
  snapshot.seconds_per_token = static_cast<double>(Choose(0, 5));
  snapshot.seconds_per_swapped_block = static_cast<double>(Choose(0, 50));
  const int64_t block_size = snapshot.limits.block_size_tokens;
  const size_t num_running = static_cast<size_t>(Choose(0, 6));
  const size_t num_all = num_running + static_cast<size_t>(Choose(0, 6));
  for (size_t i = 1; i <= num_all; ++i) {
    const auto id = static_cast<SequenceId>(i);
    if (i <= num_running) {
      snapshot.running.push_back(RandomRunning(id, block_size));
    } else {
      snapshot.waiting.push_back(RandomWaiting(id, block_size, num_all));
    }
  }
  OrderByUrgency(&snapshot.running);
  OrderByUrgency(&snapshot.waiting);
  // Some neighbours form a unit.
  for (size_t i = 1; i < num_running; ++i) {
    if (Choose(0, 3) == 0) snapshot.running[i].unit = snapshot.running[i - 1].unit;
  }
  return snapshot;
}

StepPlan PlanOf(const SchedulerSnapshot& snapshot) {
  StepPlan plan;
  Scheduler::Plan(snapshot, &plan);
  return plan;
}

// ---- The second scheduler

// Blocks for the positions from num_computed on, position by position.
int64_t CountBlocks(const SchedulerSnapshot& snapshot, const RunningView& sequence,
                    int64_t num_tokens) {
  std::set<int64_t> written;
  for (int64_t i = 0; i < num_tokens; ++i) {
    written.insert((sequence.num_computed + i) / snapshot.limits.block_size_tokens);
  }
  const int64_t num_held = sequence.num_held_blocks;
  int64_t count = 0;
  for (const int64_t block : written) {
    const bool is_tail = block == sequence.num_computed / snapshot.limits.block_size_tokens;
    if (block >= num_held || (is_tail && sequence.tail_is_shared)) ++count;
  }
  return count;
}

int64_t CountBlocks(const SchedulerSnapshot& snapshot, const WaitingView& candidate,
                    int64_t num_tokens) {
  int64_t found = std::max(candidate.num_cached, candidate.num_swapped);
  if (found == candidate.num_tokens) --found;
  const int64_t end = snapshot.limits.static_batching ? candidate.num_tokens : found + num_tokens;
  int64_t count = candidate.num_idle_blocks;
  const int64_t block_size = snapshot.limits.block_size_tokens;
  for (int64_t block = candidate.num_shared_blocks; block * block_size < end; ++block) ++count;
  return count;
}

// The units in order of their most urgent members; each with its sequences.
std::vector<std::vector<RunningView>> Units(const SchedulerSnapshot& snapshot) {
  std::vector<std::vector<RunningView>> units;
  for (const RunningView& sequence : snapshot.running) {
    auto unit = std::find_if(units.begin(), units.end(), [&](const auto& members) {
      return members.front().unit == sequence.unit;
    });
    if (unit == units.end()) {
      units.push_back({sequence});
    } else {
      unit->push_back(sequence);
    }
  }
  return units;
}

StepPlan NaivePreemption(const SchedulerSnapshot& snapshot) {
  const auto units = Units(snapshot);
  double blocks = 0;
  double tokens = 0;
  for (const RunningView& sequence : units.back()) {
    blocks += sequence.num_held_blocks;
    tokens += static_cast<double>(sequence.num_computed);
  }
  StepPlan plan;
  plan.preempt = units.back().front().id;
  if (blocks <= snapshot.num_free_swap_blocks &&
      blocks * snapshot.seconds_per_swapped_block < tokens * snapshot.seconds_per_token) {
    plan.preemption_mode = PreemptionMode::kSwap;
  }
  return plan;
}

std::optional<StepPlan> NaiveYield(const SchedulerSnapshot& snapshot, int64_t needed,
                                   int64_t wanted) {
  const int64_t most = int64_t{snapshot.num_available_blocks} + snapshot.num_pinned_idle_blocks;
  if (needed > most) return std::nullopt;
  StepPlan plan;
  plan.yield_pins_blocks = static_cast<uint32_t>(std::min(wanted, most));
  return plan;
}

class NaiveScheduler {
 public:
  explicit NaiveScheduler(const SchedulerSnapshot& snapshot)
      : snapshot_(snapshot),
        budget_(snapshot.limits.max_num_batched_tokens),
        blocks_(snapshot.num_available_blocks) {}

  StepPlan Plan() {
    if (!PlanRunning()) return plan_;
    const bool closed = snapshot_.limits.static_batching || snapshot_.preempted_this_round;
    const WaitingView* blocked = nullptr;
    int64_t lacks = 0;
    if (plan_.scheduled.empty() || !closed) blocked = PlanWaiting(&lacks);
    if (!plan_.scheduled.empty() || !plan_.admitted.empty()) return plan_;
    return Standstill(blocked, lacks);
  }

 private:
  bool PlanRunning() {
    std::vector<RunningView> decodes;
    std::vector<RunningView> prefills;
    bool head_is_prefill = false;
    for (const RunningView& sequence : snapshot_.running) {
      const int64_t work = sequence.num_tokens - sequence.num_computed;
      if (work > 1 && decodes.empty() && prefills.empty()) head_is_prefill = true;
      if (work == 1) decodes.push_back(sequence);
      if (work > 1) prefills.push_back(sequence);
    }
    for (const RunningView& sequence : decodes) {
      if (budget_ - (head_is_prefill ? 1 : 0) < 1) break;
      if (!Grow(sequence)) return false;
    }
    for (const RunningView& sequence : prefills) {
      if (budget_ < 1) break;
      if (!Grow(sequence)) return false;
    }
    return true;
  }

  // Token by token, as far as budget and blocks go.
  bool Grow(const RunningView& sequence) {
    const int64_t most = std::min(budget_, sequence.num_tokens - sequence.num_computed);
    int64_t chunk = 0;
    while (chunk < most && CountBlocks(snapshot_, sequence, chunk + 1) <= blocks_) ++chunk;
    if (chunk == 0) {
      std::optional<StepPlan> other;
      const int64_t taken = int64_t{snapshot_.num_available_blocks} - blocks_;
      if (Units(snapshot_).size() > 1) {
        other = NaivePreemption(snapshot_);
      } else {
        other = NaiveYield(snapshot_, taken + CountBlocks(snapshot_, sequence, 1),
                           taken + CountBlocks(snapshot_, sequence, most));
      }
      if (!other) return true;
      plan_ = *other;
      return false;
    }
    blocks_ -= CountBlocks(snapshot_, sequence, chunk);
    budget_ -= chunk;
    plan_.scheduled.push_back({sequence.id, chunk});
    return true;
  }

  bool Waits(const WaitingView& candidate) const {
    if (snapshot_.limits.static_batching) return false;
    if (candidate.depends_on == kNoSequence) return false;
    if (candidate.num_cached >= candidate.depends_until) return false;
    for (const ScheduledSequence& other : plan_.admitted) {
      if (other.id == candidate.depends_on) return true;
    }
    for (const RunningView& other : snapshot_.running) {
      if (other.id != candidate.depends_on) continue;
      return other.num_computed < candidate.depends_until && other.num_computed < other.num_tokens;
    }
    return false;
  }

  const WaitingView* PlanWaiting(int64_t* lacks) {
    int64_t ids = snapshot_.running.size() + snapshot_.num_reserved_sequences;
    for (size_t i = 0; i < snapshot_.waiting.size() && budget_ > 0; ++i) {
      const WaitingView& candidate = snapshot_.waiting[i];
      if (Waits(candidate)) continue;
      ids += candidate.num_sequences;
      if (ids > snapshot_.limits.max_num_seqs) return &candidate;
      int64_t chunk = candidate.num_tokens - std::max(candidate.num_cached, candidate.num_swapped);
      if (snapshot_.limits.static_batching) {
        const int64_t others = std::min<int64_t>(snapshot_.waiting.size() - i - 1,
                                                 snapshot_.limits.max_num_seqs - ids);
        chunk = std::min(chunk, budget_ - others);
      }
      chunk = std::max<int64_t>(1, std::min(chunk, budget_));
      *lacks = CountBlocks(snapshot_, candidate, chunk);
      const bool alone = plan_.scheduled.empty() && plan_.admitted.empty();
      if (*lacks + (alone ? 0 : snapshot_.limits.watermark_blocks) > blocks_) return &candidate;
      blocks_ -= *lacks;
      *lacks = 0;
      budget_ -= chunk;
      plan_.admitted.push_back({candidate.id, chunk});
    }
    return nullptr;
  }

  StepPlan Standstill(const WaitingView* blocked, int64_t lacks) {
    const auto units = Units(snapshot_);
    if (blocked == nullptr) return units.size() > 1 ? NaivePreemption(snapshot_) : StepPlan{};
    if (!units.empty()) {
      const RunningView& last = units.back().front();
      const bool is_more_urgent =
          blocked->priority < last.priority ||
          (blocked->priority == last.priority && blocked->arrival < last.arrival);
      if (is_more_urgent) return NaivePreemption(snapshot_);
    }
    if (lacks == 0) return {};
    return NaiveYield(snapshot_, lacks, lacks).value_or(StepPlan{});
  }

  const SchedulerSnapshot& snapshot_;
  int64_t budget_;
  int64_t blocks_;
  StepPlan plan_;
};

// ---- Properties

// Both are looked up by id.
const RunningView& RunningAt(const SchedulerSnapshot& snapshot, SequenceId id) {
  return *std::find_if(snapshot.running.begin(), snapshot.running.end(),
                       [&](const RunningView& view) { return view.id == id; });
}
const WaitingView& WaitingAt(const SchedulerSnapshot& snapshot, SequenceId id) {
  return *std::find_if(snapshot.waiting.begin(), snapshot.waiting.end(),
                       [&](const WaitingView& view) { return view.id == id; });
}

RC_GTEST_PROP(SchedulerPropertyTest, ThePlanIsThatOfTheNaiveScheduler, ()) {
  for (int i = 0; i < 30; ++i) {
    const SchedulerSnapshot snapshot = RandomSnapshot();

    RC_ASSERT(PlanOf(snapshot) == NaiveScheduler(snapshot).Plan());
  }
}

RC_GTEST_PROP(SchedulerPropertyTest, TheSameSnapshotGivesTheSamePlanWhateverWasInIt, ()) {
  const SchedulerSnapshot snapshot = RandomSnapshot();
  StepPlan used = PlanOf(RandomSnapshot());

  Scheduler::Plan(snapshot, &used);

  RC_ASSERT(used == PlanOf(snapshot));
}

RC_GTEST_PROP(SchedulerPropertyTest, BudgetSequencesAndBlocksAreNeverExceeded, ()) {
  const SchedulerSnapshot snapshot = RandomSnapshot();

  const StepPlan plan = PlanOf(snapshot);

  int64_t tokens = 0;
  int64_t blocks = 0;
  int64_t ids = snapshot.running.size() + snapshot.num_reserved_sequences;
  for (const ScheduledSequence& part : plan.scheduled) {
    const RunningView& sequence = RunningAt(snapshot, part.id);
    RC_ASSERT(part.num_tokens >= 1);
    RC_ASSERT(part.num_tokens <= sequence.num_tokens - sequence.num_computed);
    tokens += part.num_tokens;
    blocks += CountBlocks(snapshot, sequence, part.num_tokens);
  }
  for (const ScheduledSequence& part : plan.admitted) {
    const WaitingView& candidate = WaitingAt(snapshot, part.id);
    RC_ASSERT(part.num_tokens >= 1);
    tokens += part.num_tokens;
    blocks += CountBlocks(snapshot, candidate, part.num_tokens);
    ids += candidate.num_sequences;
  }
  RC_ASSERT(tokens <= snapshot.limits.max_num_batched_tokens);
  RC_ASSERT(blocks <= int64_t{snapshot.num_available_blocks});
  RC_ASSERT(plan.admitted.empty() || ids <= int64_t{snapshot.limits.max_num_seqs});
  if (!plan.admitted.empty() && plan.scheduled.size() + plan.admitted.size() > 1) {
    RC_ASSERT(blocks + snapshot.limits.watermark_blocks <= snapshot.num_available_blocks);
  }
}

RC_GTEST_PROP(SchedulerPropertyTest, TheOrderIsKeptAndNobodyIsInThePlanTwice, ()) {
  const SchedulerSnapshot snapshot = RandomSnapshot();

  const StepPlan plan = PlanOf(snapshot);

  const auto rank_of = [&](SequenceId id) { return &RunningAt(snapshot, id); };
  for (size_t i = 1; i < plan.scheduled.size(); ++i) {
    const RunningView* before = rank_of(plan.scheduled[i - 1].id);
    const RunningView* after = rank_of(plan.scheduled[i].id);
    const bool before_decodes = before->num_tokens - before->num_computed == 1;
    const bool after_decodes = after->num_tokens - after->num_computed == 1;
    RC_ASSERT(before_decodes || !after_decodes);
    RC_ASSERT(before_decodes != after_decodes || before < after);
  }
  for (size_t i = 1; i < plan.admitted.size(); ++i) {
    RC_ASSERT(&WaitingAt(snapshot, plan.admitted[i - 1].id) <
              &WaitingAt(snapshot, plan.admitted[i].id));
  }
}

// Only a candidate that waits for another's tokens is passed by.
RC_GTEST_PROP(SchedulerPropertyTest, NobodyIsOvertakenForWantOfBlocksOrPlaces, ()) {
  const SchedulerSnapshot snapshot = RandomSnapshot();

  const StepPlan plan = PlanOf(snapshot);

  if (plan.admitted.empty()) return;
  std::set<SequenceId> admitted;
  for (const ScheduledSequence& part : plan.admitted) admitted.insert(part.id);
  for (const WaitingView& candidate : snapshot.waiting) {
    if (candidate.id == plan.admitted.back().id) break;
    RC_ASSERT(admitted.contains(candidate.id) || candidate.depends_on != kNoSequence);
  }
}

RC_GTEST_PROP(SchedulerPropertyTest, OnlyTheLeastUrgentUnitGivesWayAndOnlyToAMoreUrgentOne, ()) {
  const SchedulerSnapshot snapshot = RandomSnapshot();

  const StepPlan plan = PlanOf(snapshot);

  if (plan.preempt == kNoSequence) return;
  const auto units = Units(snapshot);
  RC_ASSERT(plan.preempt == units.back().front().id);
  const RunningView& victim = units.back().front();
  const bool somebody_waits_before_it =
      std::any_of(snapshot.waiting.begin(), snapshot.waiting.end(), [&](const WaitingView& view) {
        return std::tie(view.priority, view.arrival) < std::tie(victim.priority, victim.arrival);
      });
  RC_ASSERT(units.size() > 1 || somebody_waits_before_it);
}

RC_GTEST_PROP(SchedulerPropertyTest, TheMostUrgentThatCanGoOnDoesOrRoomIsMadeForIt, ()) {
  const SchedulerSnapshot snapshot = RandomSnapshot();

  const StepPlan plan = PlanOf(snapshot);

  if (plan.changes_holders()) return;
  const auto head =
      std::find_if(snapshot.running.begin(), snapshot.running.end(),
                   [](const RunningView& view) { return view.num_computed < view.num_tokens; });
  if (head == snapshot.running.end()) return;
  // Alone it has only the pins to fall back on: what needs more than that is refused on submission.
  if (Units(snapshot).size() == 1) {
    const int64_t most = int64_t{snapshot.num_available_blocks} + snapshot.num_pinned_idle_blocks;
    int64_t needed = 0;
    for (const RunningView& view : snapshot.running) needed += CountBlocks(snapshot, view, 1);
    if (needed > most) return;
  }
  RC_ASSERT(std::any_of(plan.scheduled.begin(), plan.scheduled.end(),
                        [&](const auto& part) { return part.id == head->id; }));
}

RC_GTEST_PROP(SchedulerPropertyTest, ThePlanIsEmptyOnlyWhenNothingCanBeDone, ()) {
  const SchedulerSnapshot snapshot = RandomSnapshot();

  const StepPlan plan = PlanOf(snapshot);

  if (plan.changes_holders() || !plan.scheduled.empty() || !plan.admitted.empty()) return;
  // Then at most one unit runs, or all are more urgent than whoever waits; and no candidate fits.
  if (snapshot.waiting.empty()) RC_ASSERT(Units(snapshot).size() <= 1u);
  if (!snapshot.running.empty() || snapshot.waiting.empty()) return;
  const WaitingView& first = snapshot.waiting.front();
  const int64_t chunk = std::min(
      snapshot.limits.max_num_batched_tokens,
      std::max<int64_t>(1, first.num_tokens - std::max(first.num_cached, first.num_swapped)));
  const int64_t most = int64_t{snapshot.num_available_blocks} + snapshot.num_pinned_idle_blocks;
  RC_ASSERT(first.num_sequences + snapshot.num_reserved_sequences > snapshot.limits.max_num_seqs ||
            CountBlocks(snapshot, first, chunk) > most);
}

}  // namespace
}  // namespace octavo::engine
