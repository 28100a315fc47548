#include <utility>

#include "octavo/kvcache/block_pool.h"
#include "octavo/kvcache/block_table.h"

using octavo::kvcache::BlockId;
using octavo::kvcache::BlockPool;
using octavo::kvcache::BlockRef;
using octavo::kvcache::BlockTable;

void Use(BlockPool& pool, BlockRef& first, BlockTable& table) {
  BlockRef second = first.Share();
  second = std::move(first);
  const BlockTable moved = std::move(table);
  static_cast<void>(pool.Allocate());
#ifdef BLOCK_REF_IS_COPIED
  BlockRef copy = second;
#endif
#ifdef BLOCK_REF_IS_COPY_ASSIGNED
  first = second;
#endif
#ifdef BLOCK_REF_IS_MADE_FROM_AN_ID
  BlockRef forged(&pool, BlockId(0));
#endif
#ifdef BLOCK_IS_RETAINED_FROM_OUTSIDE
  pool.Retain(BlockId(0));
#endif
#ifdef BLOCK_TABLE_IS_COPIED
  BlockTable copy = moved;
#endif
#ifdef POOL_IS_MOVED
  BlockPool other = std::move(pool);
#endif
}
