// INT8 K and V in plain loops: docs/contracts/arithmetic.md A8b and A9 as they stand.

#include "kernels/reference/attention_int8.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/arithmetic_version.h"
#include "kernels/canonical_math.h"
#include "kernels/reference/target.h"

OCTAVO_REFERENCE_BEGIN

namespace octavo::kernels {
namespace {

constexpr int64_t kTile = kAttentionTileTokens;
constexpr int64_t kMaxHeadDim = 256;
constexpr uint32_t kInfinityBits = 0x7f800000u;
constexpr uint16_t kNaNHalf = 0x7e00;
constexpr float kSmallest = 0x1p-100f;  // maxima below it count as 0

uint32_t MagnitudeBits(float x) { return std::bit_cast<uint32_t>(x) & 0x7fffffffu; }

// Rounds to nearest even. REQUIRES: |x| < 2^22.
int8_t RoundedCode(float x) {
  constexpr float kMagic = 0x1.8p23f;
  return static_cast<int8_t>((x + kMagic) - kMagic);
}

// Where one position's codes and scales of one kv head lie.
struct Int8Slot {
  Int8Slot(const PagedKvView& view, int64_t kv_head, int64_t position) {
    const int64_t block_size = view.block_size_tokens;
    const int64_t head_dim = view.head_dim;
    const int64_t slot = position % block_size;
    std::byte* head = view.base +
                      view.block_table[position / block_size] * view.block_stride_bytes +
                      static_cast<size_t>(kv_head) * view.head_stride_bytes;
    group = std::min<int64_t>(block_size, kLanes);
    k_codes = reinterpret_cast<int8_t*>(head) + slot / group * group * head_dim + slot % group * 4;
    v_codes =
        reinterpret_cast<int8_t*>(head + view.v_offset_bytes) + slot / 4 * 4 * head_dim + slot % 4;
    k_scale = head + ScalesOffsetBytes(view) + 2 * slot;
    v_scale = k_scale + 2 * block_size;
  }
  int8_t& K(int64_t d) const { return k_codes[d / 4 * 4 * group + d % 4]; }
  int8_t& V(int64_t d) const { return v_codes[4 * d]; }

  int64_t group;
  int8_t* k_codes;
  int8_t* v_codes;
  std::byte* k_scale;  // FP16
  std::byte* v_scale;  // FP16
};

float LoadScale(const std::byte* address) {
  uint16_t half;
  std::memcpy(&half, address, sizeof half);
  return FloatFromFloat16(half);
}

// Quantises x[head_dim], stores the scale and calls store(d, code).
template <typename Store>
void QuantizeHead(const float* x, int64_t head_dim, std::byte* scale_address, const Store& store) {
  uint32_t max_bits = 0;
  for (int64_t d = 0; d < head_dim; ++d) max_bits = std::max(max_bits, MagnitudeBits(x[d]));
  const bool is_finite = max_bits < kInfinityBits;
  const uint16_t half =
      is_finite ? Float16FromFloat(std::bit_cast<float>(max_bits) / 127.0f) : kNaNHalf;
  std::memcpy(scale_address, &half, sizeof half);
  const float scale = FloatFromFloat16(half);
  for (int64_t d = 0; d < head_dim; ++d) {
    const bool has_code = is_finite && scale != 0.0f;
    store(d, has_code ? RoundedCode(std::clamp(x[d] / scale, -127.0f, 127.0f)) : int8_t{0});
  }
}

// A query as codes: the scale is the result.
float QuantizeQuery(const float* q, int64_t head_dim, int8_t* codes) {
  std::fill_n(codes, head_dim, int8_t{0});
  uint32_t max_bits = 0;
  for (int64_t d = 0; d < head_dim; ++d) max_bits = std::max(max_bits, MagnitudeBits(q[d]));
  if (max_bits >= kInfinityBits) return std::numeric_limits<float>::quiet_NaN();
  const float max = std::bit_cast<float>(max_bits);
  if (max < kSmallest) return 0.0f;
  const float inverse = 127.0f / max;
  for (int64_t d = 0; d < head_dim; ++d) codes[d] = RoundedCode(q[d] * inverse);
  return max / 127.0f;
}

// The weights of the visible values, with V's scales in them, as codes 0 .. 127: the step between
// codes is the result.
float QuantizeWeights(const float* weights, int64_t num_visible, int8_t* codes) {
  std::fill_n(codes, num_visible, int8_t{0});
  uint32_t max_bits = 0;
  for (int64_t j = 0; j < num_visible; ++j) {
    max_bits = std::max(max_bits, MagnitudeBits(weights[j]));
  }
  const float max = std::bit_cast<float>(max_bits);
  if (max < kSmallest) return 0.0f;
  if (std::isnan(max)) return max;
  const float inverse = 127.0f / max;
  for (int64_t j = 0; j < num_visible; ++j) codes[j] = RoundedCode(weights[j] * inverse);
  return max / 127.0f;
}

}  // namespace

void StoreKvInt8(const PagedKvView& view, int64_t position, int64_t num_kv_heads, const float* k,
                 const float* v) {
  const int64_t head_dim = view.head_dim;
  for (int64_t head = 0; head < num_kv_heads; ++head) {
    const Int8Slot slot(view, head, position);
    QuantizeHead(k + head * head_dim, head_dim, slot.k_scale,
                 [&slot](int64_t d, int8_t code) { slot.K(d) = code; });
    QuantizeHead(v + head * head_dim, head_dim, slot.v_scale,
                 [&slot](int64_t d, int8_t code) { slot.V(d) = code; });
  }
}

void AttendTileInt8(const PagedKvView& view, int64_t kv_head, const float* q, float scale,
                    TilePositions positions, Partial state) {
  const auto [first, num_visible] = positions;
  const int64_t head_dim = view.head_dim;
  int8_t query[kMaxHeadDim];
  const float query_scale = QuantizeQuery(q, head_dim, query) * scale;
  float weights[kTile] = {};
  float max = *state.max;
  for (int64_t j = 0; j < num_visible; ++j) {
    const Int8Slot slot(view, kv_head, first + j);
    int32_t product = 0;
    for (int64_t d = 0; d < head_dim; ++d) product += int32_t{query[d]} * slot.K(d);
    weights[j] = (static_cast<float>(product) * LoadScale(slot.k_scale)) * query_scale;
    if (weights[j] > max) max = weights[j];
  }
  const float correction =
      *state.max == -std::numeric_limits<float>::infinity() ? 0.0f : Exp(*state.max - max);
  for (int64_t j = 0; j < num_visible; ++j) weights[j] = Exp(weights[j] - max);
  for (int i = 0; i < kLanes; ++i) {
    state.sums[i] = std::fma(state.sums[i], correction, weights[i] + weights[i + kLanes]);
  }

  for (int64_t j = 0; j < num_visible; ++j) {
    weights[j] = weights[j] * LoadScale(Int8Slot(view, kv_head, first + j).v_scale);
  }
  int8_t codes[kTile];
  const float step = QuantizeWeights(weights, num_visible, codes);
  for (int64_t d = 0; d < head_dim; ++d) {
    int32_t sum = 0;
    for (int64_t j = 0; j < num_visible; ++j) {
      sum += int32_t{codes[j]} * Int8Slot(view, kv_head, first + j).V(d);
    }
    state.acc[d] = std::fma(static_cast<float>(sum), step, state.acc[d] * correction);
  }
  *state.max = max;
}

}  // namespace octavo::kernels

OCTAVO_REFERENCE_END
