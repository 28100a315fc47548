#pragma once

// Purpose:    the sequences of an engine, by id, and in the order in which they are served.
// Ownership:  owns the SequenceStates.
// Threading:  the engine thread.
// Invariants: a live sequence is in exactly one of running and waiting, or is being moved between
//             them. Both are in scheduling order: (priority, arrival, index).

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/request_state.h"

namespace octavo::engine {

class CoreState {
 public:
  // `by_priority`: Request::priority counts; else only the order of arrival.
  explicit CoreState(bool by_priority) : by_priority_(by_priority) {}

  SequenceId Insert(std::unique_ptr<SequenceState> sequence);  // as waiting or running, by phase
  // The id is nobody's until RecycleIds, so that what still names it finds nothing.
  void Erase(SequenceId id);
  void RecycleIds();
  // Moves it between running and waiting.
  void SetPhase(SequenceId id, SequencePhase phase);

  SequenceState& at(SequenceId id) { return *sequences_[id]; }
  const SequenceState& at(SequenceId id) const { return *sequences_[id]; }
  // Null if the id is nobody's.
  const SequenceState* Find(SequenceId id) const { return sequences_[id].get(); }
  const std::vector<SequenceId>& running() const { return running_; }
  const std::vector<SequenceId>& waiting() const { return waiting_; }
  int32_t PriorityOf(const SequenceState& sequence) const {
    return by_priority_ ? sequence.request->request.priority : 0;
  }

 private:
  bool Before(SequenceId a, SequenceId b) const;
  std::vector<SequenceId>& QueueOf(SequencePhase phase) {
    return phase == SequencePhase::kRunning ? running_ : waiting_;
  }
  void Enqueue(SequenceId id);
  void Dequeue(SequenceId id);

  bool by_priority_;
  std::vector<std::unique_ptr<SequenceState>> sequences_;
  std::vector<SequenceId> free_ids_;
  std::vector<SequenceId> erased_ids_;  // free from the next RecycleIds on
  std::vector<SequenceId> running_;
  std::vector<SequenceId> waiting_;
};

}  // namespace octavo::engine
