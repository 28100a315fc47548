#include "engine/core_state.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace octavo::engine {

SequenceSlot CoreState::Insert(std::unique_ptr<SequenceState> sequence) {
  SequenceSlot slot = kNoSlot;
  if (free_slots_.empty()) {
    slot = static_cast<SequenceSlot>(slots_.size());
    slots_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  sequence->request->live.push_back(slot);
  slots_[slot] = std::move(sequence);
  Enqueue(slot);
  return slot;
}

void CoreState::Erase(SequenceSlot slot) {
  Dequeue(slot);
  std::erase(slots_[slot]->request->live, slot);
  slots_[slot].reset();
  erased_slots_.push_back(slot);
}

void CoreState::RecycleSlots() {
  free_slots_.insert(free_slots_.end(), erased_slots_.begin(), erased_slots_.end());
  erased_slots_.clear();
}

void CoreState::SetPhase(SequenceSlot slot, SequencePhase phase) {
  Dequeue(slot);
  slots_[slot]->phase = phase;
  Enqueue(slot);
}

bool CoreState::Before(SequenceSlot a, SequenceSlot b) const {
  const auto key = [this](SequenceSlot slot) {
    const SequenceState& sequence = at(slot);
    return std::tuple(PriorityOf(sequence), sequence.request->arrival, sequence.index, slot);
  };
  return key(a) < key(b);
}

void CoreState::Enqueue(SequenceSlot slot) {
  std::vector<SequenceSlot>& queue = QueueOf(slots_[slot]->phase);
  const auto place =
      std::upper_bound(queue.begin(), queue.end(), slot,
                       [this](SequenceSlot a, SequenceSlot b) { return Before(a, b); });
  queue.insert(place, slot);
}

void CoreState::Dequeue(SequenceSlot slot) {
  std::vector<SequenceSlot>& queue = QueueOf(slots_[slot]->phase);
  const auto place =
      std::lower_bound(queue.begin(), queue.end(), slot,
                       [this](SequenceSlot a, SequenceSlot b) { return Before(a, b); });
  OCTAVO_CHECK(place != queue.end() && *place == slot, "a live sequence is in its queue");
  queue.erase(place);
}

}  // namespace octavo::engine
