#pragma once

// Purpose:    which pins there are, until when, and how many of them hold each block back from
//             eviction.
// Ownership:  owns its books, sized once; knows blocks by id. Who walks a pinned path is the prefix
//             cache.
// Threading:  as its owner.
// Invariants: pins are in the order of their making (by id). A pin covers a path of the tree from
//             the root to last_block, so a block has at least as many pins as each of its children.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "octavo/kvcache/block_id.h"

namespace octavo::kvcache {

struct PinRegistryState {
  struct Pin {
    uint64_t id = 0;
    int64_t expires_at_ms = 0;
    uint32_t last_block = kNoBlock;
  };
  std::vector<Pin> pins;           // the oldest first
  std::vector<uint32_t> num_pins;  // [num_blocks]: how many cover this block
  uint32_t num_pinned_blocks = 0;  // with at least one
};

class PinRegistry {
 public:
  // Room for num_blocks pins.
  explicit PinRegistry(uint32_t num_blocks);

  bool is_full() const { return state_.pins.size() == state_.num_pins.size(); }
  // REQUIRES: !is_full().
  uint64_t Add(uint32_t last_block, int64_t expires_at_ms);
  // These take pins off the books; the caller uncovers their paths. The one with an id:
  std::optional<PinRegistryState::Pin> Take(uint64_t id);
  // The oldest ones, visit(pin) for each, until it returns false. O(pins) for all of them.
  template <class Visit>
  void TakeOldest(Visit visit);
  // Those that have expired, visit(pin) for each, the oldest first. O(pins) for all of them, O(1)
  // before the first one's time.
  template <class Visit>
  void TakeExpired(int64_t now_ms, Visit visit);

  bool Cover(uint32_t block);    // true: it had no pin
  bool Uncover(uint32_t block);  // true: it has none now
  // Pins that end in `block` end in `twin`. REQUIRES: the same parent; `block` has no children.
  void Move(uint32_t block, uint32_t twin);

  bool is_pinned(uint32_t block) const { return state_.num_pins[block] > 0; }
  uint32_t num_pinned_blocks() const { return state_.num_pinned_blocks; }
  uint32_t num_pins() const { return static_cast<uint32_t>(state_.pins.size()); }
  const PinRegistryState& state() const { return state_; }

 private:
  PinRegistryState state_;
  uint64_t next_id_ = 1;
  // No pin expires before.
  int64_t first_expiry_ms_ = std::numeric_limits<int64_t>::max();
};

template <class Visit>
void PinRegistry::TakeOldest(Visit visit) {
  size_t num_taken = 0;
  while (num_taken < state_.pins.size() && visit(state_.pins[num_taken++])) {
  }
  state_.pins.erase(state_.pins.begin(),
                    state_.pins.begin() + static_cast<std::ptrdiff_t>(num_taken));
}

template <class Visit>
void PinRegistry::TakeExpired(int64_t now_ms, Visit visit) {
  if (now_ms < first_expiry_ms_) return;
  first_expiry_ms_ = std::numeric_limits<int64_t>::max();
  size_t num_left = 0;
  for (const PinRegistryState::Pin& pin : state_.pins) {
    if (pin.expires_at_ms <= now_ms) {
      visit(pin);
    } else {
      first_expiry_ms_ = std::min(first_expiry_ms_, pin.expires_at_ms);
      state_.pins[num_left++] = pin;
    }
  }
  state_.pins.resize(num_left);
}

}  // namespace octavo::kvcache
