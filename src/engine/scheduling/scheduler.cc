#include "engine/scheduling/scheduler.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "base/checked_math.h"

namespace octavo::engine {
namespace {

int64_t NumToCompute(const RunningView& sequence) {
  return sequence.num_tokens - sequence.num_computed;
}

bool IsDecode(const RunningView& sequence) { return NumToCompute(sequence) == 1; }
bool IsPrefill(const RunningView& sequence) { return NumToCompute(sequence) > 1; }

// The next write goes into a block that others hold too.
int64_t NumCopiedBlocks(const RunningView& sequence) {
  return sequence.tail_is_shared && sequence.num_computed < sequence.capacity_tokens ? 1 : 0;
}

// Makes one plan. The rules are those of docs/contracts/scheduling.md, in its order.
class Planner {
 public:
  Planner(const SchedulerSnapshot& snapshot, StepPlan* plan)
      : snapshot_(snapshot),
        limits_(snapshot.limits),
        plan_(*plan),
        num_available_(snapshot.num_available_blocks),
        budget_(snapshot.limits.max_num_batched_tokens),
        num_sequences_(int64_t{snapshot.num_reserved_sequences} +
                       static_cast<int64_t>(snapshot.running.size())) {}

  void Run();

 private:
  // A candidate that keeps its place, and why.
  struct Blocked {
    const WaitingView* candidate = nullptr;
    int64_t num_blocks = 0;  // that it needs; 0: it lacks a place
  };

  // The running. False: somebody must give way first, and the plan says who.
  bool ScheduleDecodes();
  bool SchedulePrefills();
  bool Schedule(size_t index, int64_t num_tokens);
  int64_t NumNewBlocks(const RunningView& sequence, int64_t num_tokens) const;
  int64_t NumTokensThatFit(const RunningView& sequence) const;

  // Those who give way.
  bool MakeRoom(size_t index, int64_t num_tokens);
  size_t LeastUrgentUnit() const;
  void Preempt(size_t index);
  bool YieldPins(int64_t num_needed, int64_t num_wanted);

  // The waiting.
  bool MayAdmit() const;
  void AdmitInOrder();
  bool MustWaitForTokens(const WaitingView& candidate) const;
  int64_t ChunkOf(const WaitingView& candidate, size_t num_behind) const;
  int64_t NumBlocksToAdmit(const WaitingView& candidate, int64_t chunk) const;
  void EndStandstill();

  bool plans_nothing() const { return plan_.scheduled.empty() && plan_.admitted.empty(); }

  const SchedulerSnapshot& snapshot_;
  const SchedulerLimits& limits_;
  StepPlan& plan_;
  int64_t num_available_;  // blocks
  int64_t budget_;         // tokens
  int64_t num_sequences_;  // taken or set aside
  Blocked blocked_;
};

// How many tokens of it are in the cache or the swap space. One at least is left to compute: the
// logits are wanted.
int64_t NumFound(const WaitingView& candidate) {
  return std::min(std::max(candidate.num_cached, candidate.num_swapped), candidate.num_tokens - 1);
}

void Planner::Run() {
  plan_.Clear();
  if (!ScheduleDecodes() || !SchedulePrefills()) return;
  if (MayAdmit()) AdmitInOrder();
  if (plans_nothing()) EndStandstill();
}

bool Planner::ScheduleDecodes() {
  const auto& running = snapshot_.running;
  const auto head = std::find_if(running.begin(), running.end(), [](const RunningView& sequence) {
    return NumToCompute(sequence) > 0;
  });
  // The most urgent one goes on in every step, also when it is a prefill behind many decodes.
  const int64_t set_aside = head != running.end() && IsPrefill(*head) ? 1 : 0;
  for (size_t i = 0; i < running.size() && budget_ > set_aside; ++i) {
    if (IsDecode(running[i]) && !Schedule(i, 1)) return false;
  }
  return true;
}

bool Planner::SchedulePrefills() {
  const auto& running = snapshot_.running;
  for (size_t i = 0; i < running.size() && budget_ > 0; ++i) {
    if (!IsPrefill(running[i])) continue;
    if (!Schedule(i, std::min(NumToCompute(running[i]), budget_))) return false;
  }
  return true;
}

bool Planner::Schedule(size_t index, int64_t num_tokens) {
  const RunningView& sequence = snapshot_.running[index];
  const int64_t chunk = std::min(num_tokens, NumTokensThatFit(sequence));
  if (chunk < 1) return MakeRoom(index, num_tokens);
  num_available_ -= NumNewBlocks(sequence, chunk);
  budget_ -= chunk;
  plan_.scheduled.push_back({sequence.id, chunk});
  return true;
}

int64_t Planner::NumNewBlocks(const RunningView& sequence, int64_t num_tokens) const {
  const int64_t num_beyond = sequence.num_computed + num_tokens - sequence.capacity_tokens;
  return NumCopiedBlocks(sequence) +
         base::CeilDivide<int64_t>(std::max<int64_t>(num_beyond, 0), limits_.block_size_tokens);
}

int64_t Planner::NumTokensThatFit(const RunningView& sequence) const {
  const int64_t num_blocks = num_available_ - NumCopiedBlocks(sequence);
  if (num_blocks < 0) return 0;
  return sequence.capacity_tokens - sequence.num_computed + num_blocks * limits_.block_size_tokens;
}

// True: nothing can be done for it, and the others go on.
bool Planner::MakeRoom(size_t index, int64_t num_tokens) {
  const size_t victim = LeastUrgentUnit();
  if (victim > 0) {
    Preempt(victim);
    return false;
  }
  const RunningView& sequence = snapshot_.running[index];
  const int64_t num_taken = int64_t{snapshot_.num_available_blocks} - num_available_;
  return !YieldPins(num_taken + NumNewBlocks(sequence, 1),
                    num_taken + NumNewBlocks(sequence, num_tokens));
}

// The index of its most urgent member; 0 = there is only one unit.
// REQUIRES: somebody runs.
size_t Planner::LeastUrgentUnit() const {
  const auto& running = snapshot_.running;
  size_t index = running.size() - 1;
  for (; index > 0; --index) {
    // Members of a unit lie side by side or nearly so: the search from behind ends at once for all
    // but the first of them.
    size_t before = index;
    while (before > 0 && running[before - 1].unit != running[index].unit) --before;
    if (before == 0) break;
  }
  return index;
}

void Planner::Preempt(size_t index) {
  int64_t num_blocks = 0;
  int64_t num_tokens = 0;
  for (const RunningView& sequence : snapshot_.running) {
    if (sequence.unit != snapshot_.running[index].unit) continue;
    num_blocks += sequence.num_held_blocks;
    num_tokens += sequence.num_computed;
  }
  const bool swap_is_cheaper =
      snapshot_.seconds_per_swapped_block * static_cast<double>(num_blocks) <
      snapshot_.seconds_per_token * static_cast<double>(num_tokens);
  const bool swap = swap_is_cheaper && num_blocks <= int64_t{snapshot_.num_free_swap_blocks};
  plan_.Clear();
  plan_.preempt = snapshot_.running[index].id;
  plan_.preemption_mode = swap ? PreemptionMode::kSwap : PreemptionMode::kRecompute;
}

// False, and nothing changed: pins hold too little.
bool Planner::YieldPins(int64_t num_needed, int64_t num_wanted) {
  const int64_t most = int64_t{snapshot_.num_available_blocks} + snapshot_.num_pinned_idle_blocks;
  if (num_needed > most) return false;
  plan_.Clear();
  plan_.yield_pins_blocks = static_cast<uint32_t>(std::min(num_wanted, most));
  return true;
}

bool Planner::MayAdmit() const {
  if (plan_.scheduled.empty()) return true;
  return !limits_.static_batching && !snapshot_.preempted_this_round;
}

void Planner::AdmitInOrder() {
  const auto& waiting = snapshot_.waiting;
  for (size_t i = 0; i < waiting.size() && budget_ > 0; ++i) {
    const WaitingView& candidate = waiting[i];
    if (MustWaitForTokens(candidate)) continue;
    if (num_sequences_ + candidate.num_sequences > int64_t{limits_.max_num_seqs}) {
      blocked_ = {&candidate, 0};
      return;
    }
    num_sequences_ += candidate.num_sequences;
    const int64_t chunk = ChunkOf(candidate, waiting.size() - 1 - i);
    const int64_t num_blocks = NumBlocksToAdmit(candidate, chunk);
    const int64_t num_kept = plans_nothing() ? 0 : int64_t{limits_.watermark_blocks};
    if (num_blocks + num_kept > num_available_) {
      blocked_ = {&candidate, num_blocks};
      return;
    }
    num_available_ -= num_blocks;
    budget_ -= chunk;
    plan_.admitted.push_back({candidate.id, chunk});
  }
}

// Another sequence is about to compute tokens that this one needs: it lets others pass meanwhile.
// A static batch takes everybody along: it would find them gone when the next batch begins.
bool Planner::MustWaitForTokens(const WaitingView& candidate) const {
  if (candidate.depends_on == kNoSequence || candidate.depends_until <= candidate.num_cached) {
    return false;
  }
  if (limits_.static_batching) return false;
  const auto is_target = [&](const auto& other) { return other.id == candidate.depends_on; };
  if (std::any_of(plan_.admitted.begin(), plan_.admitted.end(), is_target)) return true;
  const auto& running = snapshot_.running;
  const auto target = std::find_if(running.begin(), running.end(), is_target);
  return target != running.end() && target->num_computed < candidate.depends_until &&
         NumToCompute(*target) > 0;
}

// What it computes at first. A static batch fills up in one step: each one leaves a token of the
// budget to each that could still come.
int64_t Planner::ChunkOf(const WaitingView& candidate, size_t num_behind) const {
  int64_t budget = budget_;
  if (limits_.static_batching) {
    budget -= std::min(static_cast<int64_t>(num_behind), limits_.max_num_seqs - num_sequences_);
  }
  return std::max<int64_t>(1, std::min(budget, candidate.num_tokens - NumFound(candidate)));
}

// Blocks of its own for everything that it does not share, and the shared ones that only the cache
// holds: they cease to be available. The copy of a partly matching block is the first of its own.
int64_t Planner::NumBlocksToAdmit(const WaitingView& candidate, int64_t chunk) const {
  // A static batch is not refilled: it takes no more sequences than have room for what they know.
  const int64_t num_tokens =
      limits_.static_batching ? candidate.num_tokens : NumFound(candidate) + chunk;
  const int64_t num_own = base::CeilDivide<int64_t>(num_tokens, limits_.block_size_tokens) -
                          int64_t{candidate.num_shared_blocks};
  return num_own + candidate.num_idle_blocks;
}

// Nobody can go on and nobody gets in. What keeps the first one waiting out gives way: blocks and
// places of a beam search that itself waits for a place for its other sequences, then pins.
void Planner::EndStandstill() {
  if (!snapshot_.running.empty()) {
    const size_t victim = LeastUrgentUnit();
    const RunningView& holder = snapshot_.running[victim];
    const WaitingView* first = blocked_.candidate;
    const bool gives_way = first != nullptr ? std::pair(first->priority, first->arrival) <
                                                  std::pair(holder.priority, holder.arrival)
                                            : victim > 0;
    if (gives_way) return Preempt(victim);
  }
  if (blocked_.num_blocks > 0) YieldPins(blocked_.num_blocks, blocked_.num_blocks);
}

}  // namespace

void Scheduler::Plan(const SchedulerSnapshot& snapshot, StepPlan* plan) {
  OCTAVO_DCHECK(snapshot.limits.block_size_tokens > 0, "a block holds tokens");
  OCTAVO_DCHECK(snapshot.limits.max_num_batched_tokens > 0, "a step computes something");
  Planner(snapshot, plan).Run();
}

}  // namespace octavo::engine
