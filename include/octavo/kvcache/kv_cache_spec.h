#pragma once

// Purpose:    the geometry of a KV cache, and the sizes that follow from it.
// Ownership:  plain values.
// Threading:  pure.
// Invariants: sizes are exact or absent (overflow); see docs/contracts/memory.md#kv-bytes.

#include <cstdint>
#include <optional>

#include "octavo/status.h"

namespace octavo::kvcache {

inline constexpr int32_t kMinBlockSizeTokens = 8;
inline constexpr int32_t kMaxBlockSizeTokens = 256;

// 8, 16, 32, 64, 128 or 256.
bool IsBlockSize(int32_t block_size_tokens);

struct KvCacheSpec {
  int32_t num_layers = 0;  // the layers that store K and V
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t bytes_per_element = 0;
  int32_t block_size_tokens = 16;
  int32_t scale_bytes = 0;  // of one token and head beside the elements, for K and again for V

  // OK, or which field is outside its limits.
  Status Validate() const;

  // K and V of one token in all layers: 2 * num_layers * num_kv_heads * (head_dim *
  // bytes_per_element + scale_bytes), and its share of a block's padding, if there is any.
  std::optional<int64_t> BytesPerToken() const;
  std::optional<int64_t> BytesPerBlock() const;
  // K, V and their scales of one kv head in one layer of a block; with scales, padded to a multiple
  // of 64.
  std::optional<int64_t> HeadBytesPerBlock() const;

  // Blocks that hold num_tokens positions. REQUIRES: num_tokens >= 0.
  int64_t NumBlocksForTokens(int64_t num_tokens) const;
  // Whole blocks that fit into budget_bytes; absent if a block's size overflows. REQUIRES:
  // budget_bytes >= 0.
  std::optional<int64_t> NumBlocksForBytes(int64_t budget_bytes) const;
};

}  // namespace octavo::kvcache
