#pragma once

// Purpose:    least recently used first, in two classes: content that was never reused goes before
//             content that was.
// Ownership:  see eviction_policy.h.
// Threading:  see eviction_policy.h.
// Invariants: reused content fills at most kMaxReusedShare of the blocks; past that its oldest
//             block is treated like content that was never reused, so that what was popular once
//             does not keep the cache for ever.

#include "kvcache/eviction_policy.h"

namespace octavo::kvcache {

class LruPolicy final : public EvictionPolicy {
 public:
  static constexpr double kMaxReusedShare = 0.25;  // docs/decisions/0005

  explicit LruPolicy(uint32_t num_blocks);

  void Insert(const EvictionCandidate& candidate) override;
  void Remove(uint32_t block) override;
  uint32_t PopVictim() override;
  const BlockListsState& state() const override { return lists_.state(); }

 private:
  enum List : uint32_t { kNeverReused, kReused, kNumLists };

  BlockLists lists_;
  uint32_t max_reused_;
};

}  // namespace octavo::kvcache
