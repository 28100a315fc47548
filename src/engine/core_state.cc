#include "engine/core_state.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace octavo::engine {

SequenceId CoreState::Insert(std::unique_ptr<SequenceState> sequence) {
  SequenceId id = kNoSequence;
  if (free_ids_.empty()) {
    id = static_cast<SequenceId>(sequences_.size());
    sequences_.emplace_back();
  } else {
    id = free_ids_.back();
    free_ids_.pop_back();
  }
  sequence->request->live.push_back(id);
  sequences_[id] = std::move(sequence);
  Enqueue(id);
  return id;
}

void CoreState::Erase(SequenceId id) {
  Dequeue(id);
  std::erase(sequences_[id]->request->live, id);
  sequences_[id].reset();
  erased_ids_.push_back(id);
}

void CoreState::RecycleIds() {
  free_ids_.insert(free_ids_.end(), erased_ids_.begin(), erased_ids_.end());
  erased_ids_.clear();
}

void CoreState::SetPhase(SequenceId id, SequencePhase phase) {
  Dequeue(id);
  sequences_[id]->phase = phase;
  Enqueue(id);
}

bool CoreState::Before(SequenceId a, SequenceId b) const {
  const auto key = [this](SequenceId id) {
    const SequenceState& sequence = at(id);
    return std::tuple(PriorityOf(sequence), sequence.request->arrival, sequence.index, id);
  };
  return key(a) < key(b);
}

void CoreState::Enqueue(SequenceId id) {
  std::vector<SequenceId>& queue = QueueOf(sequences_[id]->phase);
  const auto place = std::upper_bound(queue.begin(), queue.end(), id,
                                      [this](SequenceId a, SequenceId b) { return Before(a, b); });
  queue.insert(place, id);
}

void CoreState::Dequeue(SequenceId id) {
  std::vector<SequenceId>& queue = QueueOf(sequences_[id]->phase);
  const auto place = std::lower_bound(queue.begin(), queue.end(), id,
                                      [this](SequenceId a, SequenceId b) { return Before(a, b); });
  OCTAVO_CHECK(place != queue.end() && *place == id, "a live sequence is in its queue");
  queue.erase(place);
}

}  // namespace octavo::engine
