#pragma once

// Purpose:    what is cheap to compute again and seldom reused goes first (Greedy-Dual): a block's
//             rank is its value on top of the rank of the last victim, so that value fades with
//             time.
// Ownership:  see eviction_policy.h.
// Threading:  see eviction_policy.h.
// Invariants: value = (1 + reuses) * sqrt(cost(position)), rounded down to one of kNumClasses
//             powers of sqrt(2); each class is a queue, so a victim is the lowest of their fronts.
//             The cost of a token grows with its position, since attention reads what is before it;
//             all blocks have the same bytes. The root keeps the ends of long prompts from
//             outliving all else (docs/decisions/0005). A block's class is not below that of a
//             child that it had when it became idle.

#include <array>
#include <cstdint>
#include <vector>

#include "kvcache/eviction_policy.h"

namespace octavo::kvcache {

class CostAwarePolicy final : public EvictionPolicy {
 public:
  static constexpr uint32_t kNumClasses = 32;  // one bit each
  // At this position attention costs as much as everything else, for a model of 100M weights.
  static constexpr int64_t kDoubleCostPosition = 4096;

  explicit CostAwarePolicy(uint32_t num_blocks);

  void Insert(const EvictionCandidate& candidate) override;
  void Remove(uint32_t block) override;
  uint32_t PopVictim() override;
  const BlockListsState& state() const override { return lists_.state(); }

 private:
  uint32_t ClassOf(const EvictionCandidate& candidate) const;

  BlockLists lists_;                            // a queue for each class
  std::array<uint64_t, kNumClasses> values_{};  // of a class, in 1/16
  std::vector<uint64_t> ranks_;                 // [num_blocks]
  std::vector<uint8_t> class_floor_;            // [num_blocks]: the highest class of its children
  uint64_t last_rank_ = 0;                      // of the last victim
  uint32_t used_classes_ = 0;                   // bit i: class i is not empty
};

}  // namespace octavo::kvcache
