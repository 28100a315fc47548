#include "kvcache/lru_policy.h"

namespace octavo::kvcache {

LruPolicy::LruPolicy(uint32_t num_blocks)
    : lists_(num_blocks, kNumLists),
      max_reused_(static_cast<uint32_t>(kMaxReusedShare * num_blocks)) {}

void LruPolicy::Insert(const EvictionCandidate& candidate) {
  lists_.PushBack(candidate.num_reuses == 0 ? kNeverReused : kReused, candidate.block);
  ++size_;
  if (lists_.size(kReused) <= max_reused_) return;
  // Its children are older than it is, so they are in the other list already.
  const uint32_t oldest = lists_.first(kReused);
  lists_.Remove(oldest);
  lists_.PushBack(kNeverReused, oldest);
}

void LruPolicy::Remove(uint32_t block) {
  lists_.Remove(block);
  --size_;
}

uint32_t LruPolicy::PopVictim() {
  if (size_ == 0) return kNoBlock;
  const uint32_t victim = lists_.first(lists_.size(kNeverReused) > 0 ? kNeverReused : kReused);
  Remove(victim);
  return victim;
}

}  // namespace octavo::kvcache
