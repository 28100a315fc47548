#include <utility>

#include "octavo/kvcache/kv_cache_manager.h"

using octavo::kvcache::CachedSequence;
using octavo::kvcache::KvCacheManager;
using octavo::kvcache::PinId;

void Use(KvCacheManager& manager, CachedSequence& first) {
  CachedSequence second = manager.Fork(first);
  second = std::move(first);
  static_cast<void>(manager.Unpin(PinId(7)));
#ifdef SEQUENCE_IS_COPIED
  CachedSequence copy = second;
#endif
#ifdef SEQUENCE_IS_COPY_ASSIGNED
  first = second;
#endif
#ifdef MANAGER_IS_MOVED
  KvCacheManager other = std::move(manager);
#endif
#ifdef PIN_IS_AN_INTEGER
  static_cast<void>(manager.Unpin(7));
#endif
}
