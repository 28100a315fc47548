#pragma once

// Purpose:    the sequences of an engine, by slot, and in the order in which they are served.
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

  SequenceSlot Insert(std::unique_ptr<SequenceState> sequence);  // as waiting or running, by phase
  // The slot stays empty until RecycleSlots, so that what still names it finds nothing.
  void Erase(SequenceSlot slot);
  void RecycleSlots();
  // Moves it between running and waiting.
  void SetPhase(SequenceSlot slot, SequencePhase phase);

  SequenceState& at(SequenceSlot slot) { return *slots_[slot]; }
  const SequenceState& at(SequenceSlot slot) const { return *slots_[slot]; }
  // Null if the slot is empty.
  const SequenceState* Find(SequenceSlot slot) const { return slots_[slot].get(); }
  const std::vector<SequenceSlot>& running() const { return running_; }
  const std::vector<SequenceSlot>& waiting() const { return waiting_; }
  int32_t PriorityOf(const SequenceState& sequence) const {
    return by_priority_ ? sequence.request->request.priority : 0;
  }

 private:
  bool Before(SequenceSlot a, SequenceSlot b) const;
  std::vector<SequenceSlot>& QueueOf(SequencePhase phase) {
    return phase == SequencePhase::kRunning ? running_ : waiting_;
  }
  void Enqueue(SequenceSlot slot);
  void Dequeue(SequenceSlot slot);

  bool by_priority_;
  std::vector<std::unique_ptr<SequenceState>> slots_;
  std::vector<SequenceSlot> free_slots_;
  std::vector<SequenceSlot> erased_slots_;  // free from the next RecycleSlots on
  std::vector<SequenceSlot> running_;
  std::vector<SequenceSlot> waiting_;
};

}  // namespace octavo::engine
