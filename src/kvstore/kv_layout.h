#pragma once

// Purpose:    where the bytes of a block lie: arena [block][layer][kv head]{K, V, scales}, as
//             kernels/attention.h reads it. A block is one piece, so that a pool takes RAM as it
//             fills and a block is copied at once.
// Ownership:  plain values.
// Threading:  pure.
// Invariants: every offset and stride is a multiple of 64; the sum of a block's parts over the
//             layers is KvCacheSpec::BytesPerBlock. Only INT8 in blocks of 8 tokens has padding.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/attention.h"
#include "octavo/kvcache/kv_cache_spec.h"
#include "octavo/status.h"

namespace octavo::kvstore {

// 4, 2 or 1.
int32_t BytesPerElement(kernels::KvDtype dtype);
// Of one token and kv head: 2 for INT8, whose scales are FP16, else 0.
int32_t ScaleBytes(kernels::KvDtype dtype);

// "float32", "float16", "bfloat16", "int8".
std::string_view KvDtypeName(kernels::KvDtype dtype);

struct KvLayout {
  kvcache::KvCacheSpec spec;
  kernels::KvDtype dtype = kernels::KvDtype::kFloat16;
  int64_t num_blocks = 0;

  size_t v_offset_bytes = 0;      // from a head's K to its V
  size_t head_stride_bytes = 0;   // from kv head h to h + 1 within a block
  size_t layer_stride_bytes = 0;  // from layer l to l + 1 within a block
  size_t block_stride_bytes = 0;  // from block b to b + 1: all layers of one
  size_t arena_bytes = 0;         // all blocks

  // The layout of num_blocks blocks, or which figure is outside its limits. spec.bytes_per_element
  // and spec.scale_bytes are set from dtype.
  static Result<KvLayout> Create(kvcache::KvCacheSpec spec, kernels::KvDtype dtype,
                                 int64_t num_blocks);

  // The first byte of K of kv head `head` in (layer, block), from the arena's start.
  size_t KeyOffset(int32_t layer, int64_t block, int32_t head) const {
    return static_cast<size_t>(block) * block_stride_bytes +
           static_cast<size_t>(layer) * layer_stride_bytes +
           static_cast<size_t>(head) * head_stride_bytes;
  }
};

}  // namespace octavo::kvstore
