#include "kvcache/cost_aware_policy.h"

#include <algorithm>
#include <bit>

namespace octavo::kvcache {
namespace {

constexpr uint64_t kUnit = 16;            // of values: a block at position 0 that was never reused
constexpr uint32_t kMostReuses = 0xffff;  // that are told apart
constexpr uint64_t kSqrt2Times64 = 91;    // 1.4142 * 64 = 90.5

}  // namespace

CostAwarePolicy::CostAwarePolicy(uint32_t num_blocks)
    : lists_(num_blocks, kNumClasses), ranks_(num_blocks), class_floor_(num_blocks) {
  for (uint32_t i = 0; i < kNumClasses; ++i) {
    const uint64_t power = kUnit << (i / 2);
    values_[i] = i % 2 == 0 ? power : power * kSqrt2Times64 / 64;
  }
}

uint32_t CostAwarePolicy::ClassOf(const EvictionCandidate& candidate) const {
  const auto position = static_cast<uint64_t>(candidate.position_tokens);
  const uint64_t cost = kUnit + kUnit * position / kDoubleCostPosition;
  const uint64_t uses = 1 + uint64_t{std::min(candidate.num_reuses, kMostReuses)};
  // The class is the binary logarithm of the value's square.
  const uint64_t square = uses * uses * cost / kUnit;
  return std::min(static_cast<uint32_t>(std::bit_width(square)) - 1, kNumClasses - 1);
}

void CostAwarePolicy::Insert(const EvictionCandidate& candidate) {
  uint8_t& floor = class_floor_[candidate.block];
  if (!candidate.has_children) floor = 0;
  const uint32_t own_class = std::max(ClassOf(candidate), uint32_t{floor});
  floor = static_cast<uint8_t>(own_class);
  if (candidate.parent != kNoBlock) {
    uint8_t& parent_floor = class_floor_[candidate.parent];
    parent_floor = std::max(parent_floor, floor);
  }
  ranks_[candidate.block] = last_rank_ + values_[own_class];
  lists_.PushBack(own_class, candidate.block);
  used_classes_ |= 1u << own_class;
  ++size_;
}

void CostAwarePolicy::Remove(uint32_t block) {
  const uint32_t own_class = lists_.list_of(block);
  lists_.Remove(block);
  if (lists_.size(own_class) == 0) used_classes_ &= ~(1u << own_class);
  --size_;
}

uint32_t CostAwarePolicy::PopVictim() {
  uint32_t victim = kNoBlock;
  for (uint32_t rest = used_classes_; rest != 0; rest &= rest - 1) {
    const uint32_t front = lists_.first(static_cast<uint32_t>(std::countr_zero(rest)));
    if (victim == kNoBlock || ranks_[front] < ranks_[victim]) victim = front;
  }
  if (victim == kNoBlock) return kNoBlock;
  Remove(victim);
  last_rank_ = ranks_[victim];
  class_floor_[victim] = 0;
  return victim;
}

}  // namespace octavo::kvcache
