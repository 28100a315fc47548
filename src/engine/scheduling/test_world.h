#pragma once

// Purpose:    an engine without a model, for tests of the scheduler: sequences that have lengths
//             only, and pools of blocks that are only counted. It carries out plans to the letter,
//             and fails when one cannot be carried out.
// Ownership:  owns everything.
// Threading:  one thread at a time.
// Invariants: held + cached + pinned <= all blocks; the rest is free. Blocks are not shared: each
//             sequence finds at most what it left in the cache itself.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "engine/scheduling/admission.h"
#include "engine/scheduling/scheduler.h"

namespace octavo::engine {

struct WorldOptions {
  SchedulerLimits limits;
  uint32_t num_blocks = 0;
  uint32_t num_swap_blocks = 0;
  int64_t num_pinned_blocks = 0;  // cached, idle and pinned at the start
  double seconds_per_token = 1.0;
  double seconds_per_swapped_block = 1.0;
  bool leaves_cached_blocks = true;  // what is released stays in the cache until it is needed
  uint32_t seed = 0;
};

struct WorldRequest {
  int32_t priority = 0;
  int64_t num_prompt_tokens = 1;
  int64_t num_output_tokens = 1;
  uint32_t num_sequences = 1;
  bool in_lockstep =
      false;  // a beam search; else completions that part when the prompt is computed
  int64_t arrives_at_step = 0;
  int64_t aborts_at_step = -1;  // -1: never
};

class World {
 public:
  explicit World(const WorldOptions& options)
      : options_(options), num_pinned_(options.num_pinned_blocks), random_(options.seed) {}

  // False: refused.
  bool Submit(const WorldRequest& request) {
    RequestDemand demand{request.num_prompt_tokens, request.num_output_tokens,
                         request.num_sequences, request.in_lockstep, false};
    if (RefuseIfImpossible(demand, options_.num_blocks, options_.limits)) return false;
    requests_.push_back(request);
    return true;
  }

  // True: all have ended within max_steps, and no plan was wrong.
  bool RunAll(int64_t max_steps) {
    for (; num_steps_ < max_steps; ++num_steps_) {
      ArriveAndAbort();
      const bool idle = sequences_.empty();
      if (idle && next_request_ == requests_.size()) return true;
      PinSome();
      if (!idle) Step();
      if (::testing::Test::HasFailure()) return false;
    }
    return false;
  }

  int64_t num_steps() const { return num_steps_; }
  int64_t num_preemptions() const { return num_preemptions_; }
  int64_t num_swaps() const { return num_swaps_; }
  int64_t num_tokens_out() const { return num_tokens_out_; }
  int64_t num_finished() const { return num_finished_; }
  int64_t num_pinned() const { return num_pinned_; }

 private:
  struct Member {
    SequenceId id = 0;
    uint64_t arrival = 0;
    uint32_t unit = 0;
    const WorldRequest* request = nullptr;
    bool running = false;
    bool has_forked = false;  // or has nothing to fork
    int64_t num_tokens = 0;
    int64_t num_computed = 0;
    int64_t num_held = 0;     // blocks
    int64_t num_swapped = 0;  // tokens
    int64_t num_cached = 0;   // tokens that it left in the cache; their blocks are evictable
    SequenceId depends_on = kNoSequence;
    int64_t depends_until = 0;

    int64_t final_length() const { return request->num_prompt_tokens + request->num_output_tokens; }
    uint32_t num_to_fork() const { return has_forked ? 0 : request->num_sequences - 1; }
  };

  int64_t BlocksFor(int64_t num_tokens) const {
    const int64_t block_size = options_.limits.block_size_tokens;
    return (num_tokens + block_size - 1) / block_size;
  }
  int64_t NumAvailable() const {
    int64_t num_held = num_pinned_;
    for (const Member& member : sequences_) num_held += member.num_held;
    return options_.num_blocks - num_held;
  }
  int64_t NumCachedBlocks() const {
    int64_t count = 0;
    for (const Member& member : sequences_) count += BlocksFor(member.num_cached);
    return count;
  }
  int64_t NumSwapBlocksInUse() const {
    int64_t count = 0;
    for (const Member& member : sequences_) count += BlocksFor(member.num_swapped);
    return count;
  }
  Member& At(SequenceId id) {
    return *std::find_if(sequences_.begin(), sequences_.end(),
                         [&](const Member& member) { return member.id == id; });
  }
  int64_t Draw(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }

  // Takes blocks, from the cache when none is free.
  void Take(Member* taker, int64_t num_blocks) {
    ASSERT_LE(num_blocks, NumAvailable()) << "the plan gives blocks that nobody has";
    taker->num_held += num_blocks;
    Evict();
  }

  // Pins come back between steps, as long as there is room.
  void PinSome() {
    const int64_t room = std::min(NumAvailable(), options_.num_pinned_blocks - num_pinned_);
    if (room > 0 && Draw(0, 7) == 0) num_pinned_ += Draw(0, room);
    Evict();
  }

  // Cached content makes room for what is held and pinned: somebody's last cached block goes first.
  void Evict() {
    while (NumCachedBlocks() > NumAvailable()) {
      Member& loser =
          sequences_[static_cast<size_t>(Draw(0, static_cast<int64_t>(sequences_.size()) - 1))];
      if (loser.num_cached == 0) continue;
      loser.num_cached = (BlocksFor(loser.num_cached) - 1) * options_.limits.block_size_tokens;
    }
  }

  void Add(const WorldRequest& request, uint64_t arrival, uint32_t unit, int64_t num_tokens) {
    Member member;
    member.id = next_id_++;
    member.arrival = arrival;
    member.unit = unit;
    member.request = &request;
    member.num_tokens = num_tokens;
    member.has_forked = request.in_lockstep || num_tokens > request.num_prompt_tokens;
    const auto place = std::find_if(sequences_.begin(), sequences_.end(), [&](const Member& other) {
      return std::pair(request.priority, arrival) <
             std::pair(other.request->priority, other.arrival);
    });
    // It may wait for some of the tokens of one that is more urgent.
    if (place != sequences_.begin() && Draw(0, 2) == 0) {
      const Member& target =
          sequences_[static_cast<size_t>(Draw(0, place - sequences_.begin() - 1))];
      member.depends_on = target.id;
      member.depends_until = Draw(1, std::min(target.num_tokens, num_tokens));
    }
    sequences_.insert(place, member);
  }

  void ArriveAndAbort() {
    for (;
         next_request_ < requests_.size() && requests_[next_request_].arrives_at_step <= num_steps_;
         ++next_request_) {
      const WorldRequest& request = requests_[next_request_];
      const uint32_t unit = next_unit_++;
      const uint32_t num_members = request.in_lockstep ? request.num_sequences : 1;
      for (uint32_t i = 0; i < num_members; ++i) {
        Add(request, next_request_, unit, request.num_prompt_tokens);
      }
    }
    std::erase_if(sequences_, [&](const Member& member) {
      return member.request->aborts_at_step >= 0 && member.request->aborts_at_step <= num_steps_;
    });
  }

  void Show(SchedulerSnapshot* snapshot) const;
  void Step();
  void Preempt(const StepPlan& plan);
  void Admit(const ScheduledSequence& part);
  void Compute(const ScheduledSequence& part);
  void Sample();
  bool SampleInLockstep(uint32_t unit);

  WorldOptions options_;
  std::vector<WorldRequest> requests_;  // in order of arrival; complete before the first step
  std::vector<Member> sequences_;       // alive, in scheduling order
  int64_t num_pinned_;
  std::mt19937 random_;
  size_t next_request_ = 0;
  SequenceId next_id_ = 0;
  uint32_t next_unit_ = 0;
  int64_t num_steps_ = 0;
  int64_t num_preemptions_ = 0;
  int64_t num_swaps_ = 0;
  int64_t num_tokens_out_ = 0;
  int64_t num_finished_ = 0;  // sequences
};

inline void World::Show(SchedulerSnapshot* snapshot) const {
  snapshot->limits = options_.limits;
  snapshot->num_available_blocks = static_cast<uint32_t>(NumAvailable());
  snapshot->num_pinned_idle_blocks = static_cast<uint32_t>(num_pinned_);
  snapshot->num_reserved_sequences = 0;
  snapshot->num_free_swap_blocks =
      options_.num_swap_blocks - static_cast<uint32_t>(NumSwapBlocksInUse());
  snapshot->seconds_per_token = options_.seconds_per_token;
  snapshot->seconds_per_swapped_block = options_.seconds_per_swapped_block;
  snapshot->running.clear();
  snapshot->waiting.clear();
  for (const Member& member : sequences_) {
    if (member.running) {
      RunningView view;
      view.id = member.id;
      view.priority = member.request->priority;
      view.arrival = member.arrival;
      view.num_tokens = member.num_tokens;
      view.num_computed = member.num_computed;
      view.capacity_tokens = member.num_held * options_.limits.block_size_tokens;
      view.num_held_blocks = static_cast<uint32_t>(member.num_held);
      view.unit = member.unit;
      snapshot->running.push_back(view);
      snapshot->num_reserved_sequences += member.num_to_fork();
      continue;
    }
    WaitingView view;
    view.id = member.id;
    view.priority = member.request->priority;
    view.arrival = member.arrival;
    view.num_tokens = member.num_tokens;
    view.num_cached = std::min(member.num_cached, member.num_tokens - 1);
    view.num_swapped = member.num_swapped;
    view.num_shared_blocks =
        static_cast<uint32_t>(view.num_cached / options_.limits.block_size_tokens);
    view.num_idle_blocks = view.num_shared_blocks;
    view.num_sequences = 1 + member.num_to_fork();
    view.depends_on = member.depends_on;
    view.depends_until = member.depends_until;
    snapshot->waiting.push_back(view);
  }
}

inline void World::Step() {
  SchedulerSnapshot snapshot;
  StepPlan plan;
  for (int64_t round = 0;; ++round) {
    ASSERT_LE(round, 2 * static_cast<int64_t>(sequences_.size()) + options_.num_pinned_blocks)
        << "a round does not end";
    Show(&snapshot);
    Scheduler::Plan(snapshot, &plan);
    if (!plan.changes_holders()) break;
    if (plan.preempt != kNoSequence) {
      Preempt(plan);
      snapshot.preempted_this_round = true;
    } else {
      const int64_t num_lacking = int64_t{plan.yield_pins_blocks} - NumAvailable();
      ASSERT_GT(num_lacking, 0);
      ASSERT_LE(num_lacking, num_pinned_);
      num_pinned_ -= num_lacking;
    }
  }
  ASSERT_FALSE(plan.scheduled.empty() && plan.admitted.empty()) << "nobody goes on";
  for (const ScheduledSequence& part : plan.admitted) Admit(part);
  for (const ScheduledSequence& part : plan.scheduled) Compute(part);
  Sample();
}

inline void World::Preempt(const StepPlan& plan) {
  ++num_preemptions_;
  const uint32_t unit = At(plan.preempt).unit;
  for (Member& member : sequences_) {
    if (member.unit != unit || !member.running) continue;
    if (plan.preemption_mode == PreemptionMode::kSwap) {
      ++num_swaps_;
      member.num_swapped = member.num_computed;
      ASSERT_LE(NumSwapBlocksInUse(), int64_t{options_.num_swap_blocks});
    }
    if (options_.leaves_cached_blocks)
      member.num_cached = Draw(0, 2) == 0 ? 0 : member.num_computed;
    member.running = false;
    member.num_computed = 0;
    member.num_held = 0;
  }
}

inline void World::Admit(const ScheduledSequence& part) {
  Member& member = At(part.id);
  const int64_t block_size = options_.limits.block_size_tokens;
  const int64_t most = member.num_tokens - 1;
  int64_t num_found = std::min(member.num_cached, most);
  const int64_t num_shared = num_found / block_size;
  // The whole blocks are taken back. A partly matching one is copied, if there is a block besides
  // it that can take the copy; else its tokens are computed again.
  member.num_cached -= num_shared * block_size;
  member.num_held = num_shared;
  if (NumAvailable() < 2) num_found = num_shared * block_size;
  const int64_t num_end = std::max(num_found, std::min(member.num_swapped, most));
  Take(&member, std::max<int64_t>(BlocksFor(num_end) - member.num_held, 0));
  member.num_cached = 0;
  member.num_swapped = 0;
  member.num_computed = num_end;
  member.running = true;
  Compute(part);
}

inline void World::Compute(const ScheduledSequence& part) {
  Member& member = At(part.id);
  const int64_t end = member.num_computed + part.num_tokens;
  ASSERT_LE(end, member.num_tokens);
  Take(&member, std::max<int64_t>(BlocksFor(end) - member.num_held, 0));
  member.num_computed = end;
}

// Whoever has computed all that is known gets one more token, or ends.
inline void World::Sample() {
  std::vector<SequenceId> computed;
  for (const Member& member : sequences_) {
    if (member.running && member.num_computed == member.num_tokens) computed.push_back(member.id);
  }
  std::vector<uint32_t> done;  // units
  for (const SequenceId id : computed) {
    Member& member = At(id);
    if (std::find(done.begin(), done.end(), member.unit) != done.end()) continue;
    if (member.request->in_lockstep) {
      if (SampleInLockstep(member.unit)) done.push_back(member.unit);
      continue;
    }
    ++member.num_tokens;
    ++num_tokens_out_;
    // The first token parts the completions: the others begin to wait on their own.
    const uint32_t num_forks = member.num_to_fork();
    member.has_forked = true;
    const Member parent = member;
    for (uint32_t i = 0; i < num_forks; ++i) {
      Add(*parent.request, parent.arrival, next_unit_++, parent.num_tokens);
      ++num_tokens_out_;
    }
  }
  num_finished_ += static_cast<int64_t>(std::erase_if(
      sequences_, [](const Member& member) { return member.num_tokens == member.final_length(); }));
}

// False: one of them has not computed all yet.
inline bool World::SampleInLockstep(uint32_t unit) {
  for (const Member& member : sequences_) {
    if (member.unit == unit && (!member.running || member.num_computed < member.num_tokens)) {
      return false;
    }
  }
  for (Member& member : sequences_) {
    if (member.unit != unit) continue;
    ++member.num_tokens;
    ++num_tokens_out_;
  }
  return true;
}

}  // namespace octavo::engine
