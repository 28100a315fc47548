// The canonical attention in plain loops: docs/contracts/arithmetic.md A8 and A9 as they stand. A8b
// is in attention_int8.cc.

#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "kernels/arithmetic_version.h"
#include "kernels/canonical_math.h"
#include "kernels/kernel_sets.h"
#include "kernels/reference/attention_int8.h"
#include "kernels/reference/target.h"

OCTAVO_REFERENCE_BEGIN

namespace octavo::kernels {
namespace {

constexpr int64_t kTile = kAttentionTileTokens;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

int64_t ElementBytes(KvDtype dtype) { return dtype == KvDtype::kFloat32 ? 4 : 2; }

void StoreElement(KvDtype dtype, std::byte* address, float x) {
  if (dtype == KvDtype::kFloat32) {
    std::memcpy(address, &x, sizeof x);
    return;
  }
  const uint16_t half = dtype == KvDtype::kFloat16 ? Float16FromFloat(x) : BFloat16FromFloat(x);
  std::memcpy(address, &half, sizeof half);
}

float LoadElement(KvDtype dtype, const std::byte* address) {
  if (dtype == KvDtype::kFloat32) {
    float x;
    std::memcpy(&x, address, sizeof x);
    return x;
  }
  uint16_t half;
  std::memcpy(&half, address, sizeof half);
  return dtype == KvDtype::kFloat16 ? FloatFromFloat16(half) : FloatFromBFloat16(half);
}

// Where one position's K and V of one kv head lie.
struct SlotAddress {
  SlotAddress(const PagedKvView& view, int64_t kv_head, int64_t position)
      : element_bytes(ElementBytes(view.dtype)) {
    const int64_t block_size = view.block_size_tokens;
    const int64_t slot = position % block_size;
    const int64_t group = std::min<int64_t>(block_size, kLanes);
    std::byte* head = view.base +
                      view.block_table[position / block_size] * view.block_stride_bytes +
                      static_cast<size_t>(kv_head) * view.head_stride_bytes;
    k_first = head + (slot / group * group * view.head_dim + slot % group) * element_bytes;
    k_step = group * element_bytes;
    v_first = head + view.v_offset_bytes + slot * view.head_dim * element_bytes;
  }
  std::byte* K(int64_t d) const { return k_first + d * k_step; }
  std::byte* V(int64_t d) const { return v_first + d * element_bytes; }

  int64_t element_bytes;
  int64_t k_step;  // bytes from dimension d to d + 1
  std::byte* k_first;
  std::byte* v_first;
};

void StoreKv(const PagedKvView& view, int64_t position, int64_t num_kv_heads, const float* k,
             const float* v) {
  if (view.dtype == KvDtype::kInt8) return StoreKvInt8(view, position, num_kv_heads, k, v);
  const int64_t head_dim = view.head_dim;
  for (int64_t head = 0; head < num_kv_heads; ++head) {
    const SlotAddress slot(view, head, position);
    for (int64_t d = 0; d < head_dim; ++d) {
      StoreElement(view.dtype, slot.K(d), k[head * head_dim + d]);
      StoreElement(view.dtype, slot.V(d), v[head * head_dim + d]);
    }
  }
}

// Attends one query to a tile.
void AttendTile(const PagedKvView& view, int64_t kv_head, const float* q, float scale,
                TilePositions positions, Partial state) {
  if (view.dtype == KvDtype::kInt8) {
    return AttendTileInt8(view, kv_head, q, scale, positions, state);
  }
  const auto [first, num_visible] = positions;
  const int64_t head_dim = view.head_dim;
  float weights[kTile] = {};
  float max = *state.max;
  for (int64_t j = 0; j < num_visible; ++j) {
    const SlotAddress slot(view, kv_head, first + j);
    float score = 0.0f;
    for (int64_t d = 0; d < head_dim; ++d) {
      score = std::fma(q[d], LoadElement(view.dtype, slot.K(d)), score);
    }
    weights[j] = score * scale;
    if (weights[j] > max) max = weights[j];
  }
  const float correction = *state.max == kMinusInfinity ? 0.0f : Exp(*state.max - max);
  for (int64_t j = 0; j < num_visible; ++j) weights[j] = Exp(weights[j] - max);

  for (int i = 0; i < kLanes; ++i) {
    state.sums[i] = std::fma(state.sums[i], correction, weights[i] + weights[i + kLanes]);
  }
  for (int64_t d = 0; d < head_dim; ++d) state.acc[d] = state.acc[d] * correction;
  for (int64_t j = 0; j < num_visible; ++j) {
    const SlotAddress slot(view, kv_head, first + j);
    for (int64_t d = 0; d < head_dim; ++d) {
      state.acc[d] = std::fma(weights[j], LoadElement(view.dtype, slot.V(d)), state.acc[d]);
    }
  }
  *state.max = max;
}

void AttendTiles(const PagedKvView& view, const QueryRows& rows, int64_t kv_head, TileSpan tiles,
                 float* /*scratch*/, float* partials) {
  OCTAVO_DCHECK(rows.first_position >= tiles.begin * kTile, "a row sees nothing of the tiles");
  const int64_t head_dim = view.head_dim;
  const bool begins = tiles.begin * kTile % kAttentionChunkTokens == 0;
  for (int64_t row = 0; row < rows.num_rows; ++row) {
    const int64_t num_visible = rows.first_position + row * rows.position_step + 1;
    const int64_t end = std::min<int64_t>(tiles.end * kTile, num_visible);
    for (int64_t g = 0; g < rows.group_size; ++g) {
      const int64_t head = kv_head * rows.group_size + g;
      const Partial state(partials);
      if (begins) {
        std::fill_n(partials, PartialFloats(head_dim), 0.0f);
        *state.max = kMinusInfinity;
      }
      for (int64_t first = tiles.begin * kTile; first < end; first += kTile) {
        AttendTile(view, kv_head, rows.q + row * rows.row_stride + head * head_dim, rows.scale,
                   {first, std::min(kTile, end - first)}, state);
      }
      partials += PartialFloats(head_dim);
    }
  }
}

void FoldPartial(float* running, const float* next, int64_t head_dim) {
  const float max = next[0] > running[0] ? next[0] : running[0];
  const float a = Exp(running[0] - max);
  const float b = Exp(next[0] - max);
  for (int64_t i = kPartialHeader - kLanes; i < PartialFloats(head_dim); ++i) {
    running[i] = std::fma(next[i], b, running[i] * a);
  }
  running[0] = max;
}

void Finish(const float* running, int64_t head_dim, float* out) {
  float sums[kLanes];
  std::copy_n(running + kPartialHeader - kLanes, kLanes, sums);
  const float sum = LaneTree(sums);
  for (int64_t d = 0; d < head_dim; ++d) out[d] = running[kPartialHeader + d] / sum;
}

}  // namespace

AttentionKernels ReferenceAttention() { return {StoreKv, AttendTiles, FoldPartial, Finish}; }

}  // namespace octavo::kernels

OCTAVO_REFERENCE_END
