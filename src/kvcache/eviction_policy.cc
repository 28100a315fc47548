#include "kvcache/eviction_policy.h"

#include "kvcache/cost_aware_policy.h"
#include "kvcache/lru_policy.h"

namespace octavo::kvcache {

std::unique_ptr<EvictionPolicy> MakeEvictionPolicy(EvictionPolicyKind kind, uint32_t num_blocks) {
  if (kind == EvictionPolicyKind::kCostAware) return std::make_unique<CostAwarePolicy>(num_blocks);
  return std::make_unique<LruPolicy>(num_blocks);
}

}  // namespace octavo::kvcache
