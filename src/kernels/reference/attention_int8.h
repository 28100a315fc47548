#pragma once

// Purpose:    the reference's INT8 K and V (arithmetic.md A8b, A9), and what it shares with the
//             other formats.
// Threading:  pure.

#include <cstdint>

#include "kernels/attention.h"
#include "kernels/canonical_math.h"

namespace octavo::kernels {

// The running state of one (row, head) within a chunk: a view of its partial.
struct Partial {
  explicit Partial(float* partial)
      : max(partial), sums(partial + kPartialHeader - kLanes), acc(partial + kPartialHeader) {}
  float* max;
  float* sums;  // [16]
  float* acc;   // [head_dim]
};

// The first visible positions of a tile.
struct TilePositions {
  int64_t first;
  int64_t num_visible;
};

// As AttentionKernels::store_kv. REQUIRES: view.dtype == kInt8, as for AttendTileInt8.
void StoreKvInt8(const PagedKvView& view, int64_t position, int64_t num_kv_heads, const float* k,
                 const float* v);

// Attends one query to a tile.
void AttendTileInt8(const PagedKvView& view, int64_t kv_head, const float* q, float scale,
                    TilePositions positions, Partial state);

}  // namespace octavo::kernels
