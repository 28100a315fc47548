#include "kvcache/pin_registry.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace octavo::kvcache {

using Pin = PinRegistryState::Pin;

PinRegistry::PinRegistry(uint32_t num_blocks) {
  state_.num_pins.resize(num_blocks);
  state_.pins.reserve(num_blocks);
}

uint64_t PinRegistry::Add(uint32_t last_block, int64_t expires_at_ms) {
  OCTAVO_CHECK(!is_full(), "there are at most as many pins as blocks");
  state_.pins.push_back({next_id_, expires_at_ms, last_block});
  first_expiry_ms_ = std::min(first_expiry_ms_, expires_at_ms);
  return next_id_++;
}

std::optional<Pin> PinRegistry::Take(uint64_t id) {
  const auto found = std::ranges::lower_bound(state_.pins, id, {}, &Pin::id);
  if (found == state_.pins.end() || found->id != id) return std::nullopt;
  const Pin pin = *found;
  state_.pins.erase(found);
  return pin;
}

bool PinRegistry::Cover(uint32_t block) {
  if (state_.num_pins[block]++ > 0) return false;
  ++state_.num_pinned_blocks;
  return true;
}

bool PinRegistry::Uncover(uint32_t block) {
  OCTAVO_CHECK(state_.num_pins[block] > 0, "a block without a pin is uncovered");
  if (--state_.num_pins[block] > 0) return false;
  --state_.num_pinned_blocks;
  return true;
}

void PinRegistry::Move(uint32_t block, uint32_t twin) {
  const uint32_t moved = std::exchange(state_.num_pins[block], 0);
  if (moved == 0) return;
  for (Pin& pin : state_.pins) {
    if (pin.last_block == block) pin.last_block = twin;
  }
  if (state_.num_pins[twin] > 0) --state_.num_pinned_blocks;
  state_.num_pins[twin] += moved;
}

}  // namespace octavo::kvcache
