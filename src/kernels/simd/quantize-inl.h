// Purpose:    A3: activation quantisation, a group (32 elements) at a time.

#if defined(OCTAVO_KERNELS_SIMD_QUANTIZE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTAVO_KERNELS_SIMD_QUANTIZE_INL_H
#undef OCTAVO_KERNELS_SIMD_QUANTIZE_INL_H
#else
#define OCTAVO_KERNELS_SIMD_QUANTIZE_INL_H
#endif

#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/matmul.h"
#include "kernels/simd/quad_dot-inl.h"
#include "kernels/simd/target-inl.h"
#include "quant/packed_format.h"

HWY_BEFORE_NAMESPACE();
namespace octavo::kernels {
namespace HWY_NAMESPACE {

// The bits of the largest absolute value; as integers, so that a NaN is the largest.
HWY_INLINE uint32_t LargestBits(const float* x) {
  const Di di;
  const Vi absolute = hn::Set(di, 0x7fffffff);
  Vi largest = hn::Zero(di);
#pragma GCC unroll 8
  for (int k = 0; k < quant::kGroupInputs; k += kLanes) {
    largest = hn::Max(largest, hn::And(hn::BitCast(di, hn::LoadU(Df(), x + k)), absolute));
  }
  return static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(di, largest)));
}

// Stores the codes of one half (16 elements) and returns their sum.
HWY_INLINE int32_t QuantizeHalf(const float* x, float inverse, int8_t* codes) {
  const Di di;
  const hn::Rebind<int8_t, Di> d8;
  const Vf factor = hn::Set(Df(), inverse);
  Vi sum = hn::Zero(di);
#pragma GCC unroll 4
  for (int k = 0; k < 16; k += kLanes) {
    const Vi code = hn::NearestInt(hn::Mul(hn::LoadU(Df(), x + k), factor));
    hn::StoreU(hn::DemoteTo(d8, code), d8, codes + k);
    sum = hn::Add(sum, code);
  }
  return hn::GetLane(hn::SumOfLanes(di, sum));
}

HWY_INLINE void QuantizeGroup(const float* x, int64_t group, int8_t* codes,
                              const QuantizedRows& out) {
  const uint32_t largest = LargestBits(x);
  float amax;
  std::memcpy(&amax, &largest, 4);
  const bool finite = largest < 0x7f800000u;
  if (!finite || amax < 0x1p-100f) {
    std::memset(codes, 0, static_cast<size_t>(quant::kGroupInputs));
    const float scale = finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
    out.scales[group] = scale;
    out.scaled_sums[group] = scale;
    out.half_sums[2 * group] = 0;
    out.half_sums[2 * group + 1] = 0;
    return;
  }
  const float scale = amax / 127.0f;
  const float inverse = 127.0f / amax;
  const int32_t low = QuantizeHalf(x, inverse, codes);
  const int32_t high = QuantizeHalf(x + 16, inverse, codes + 16);
  out.scales[group] = scale;
  out.scaled_sums[group] = scale * static_cast<float>(low + high);
  out.half_sums[2 * group] = static_cast<int16_t>(low);
  out.half_sums[2 * group + 1] = static_cast<int16_t>(high);
}

void QuantizeRow(const float* x, int64_t begin, int64_t end, int64_t row,
                 const QuantizedRows& out) {
  const int64_t groups = out.num_inputs / quant::kGroupInputs;
  for (int64_t g = begin / quant::kGroupInputs; g < end / quant::kGroupInputs; ++g) {
    const int64_t first = g * quant::kGroupInputs;
    QuantizeGroup(x + first, row * groups + g, out.codes + row * out.num_inputs + first, out);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace octavo::kernels
HWY_AFTER_NAMESPACE();

#endif  // OCTAVO_KERNELS_SIMD_QUANTIZE_INL_H
