// Purpose:    activation quantisation: A3, a group (32 elements) at a time, and A3b, a row.

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

// The bits of the largest absolute value of `count` elements (a multiple of 32); as integers, so
// that a NaN is the largest.
HWY_INLINE uint32_t LargestBits(const float* x, int64_t count) {
  const Di di;
  const Vi absolute = hn::Set(di, 0x7fffffff);
  Vi largest = hn::Zero(di);
#pragma GCC unroll 8
  for (int64_t k = 0; k < count; k += kLanes) {
    largest = hn::Max(largest, hn::And(hn::BitCast(di, hn::LoadU(Df(), x + k)), absolute));
  }
  return static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(di, largest)));
}

// Groups whose scales are computed together.
inline constexpr int kScaleBatch = 16;

// Scales of some groups, and the factors that their elements are multiplied by.
struct GroupFactors {
  HWY_ALIGN float scales[kScaleBatch];
  HWY_ALIGN float inverses[kScaleBatch];  // 0 where all codes are 0
};

// From the largest absolute values, as bits.
HWY_INLINE void FactorsOf(const uint32_t* largest, GroupFactors* factors) {
  const Df d;
  const hn::RebindToUnsigned<Df> du;
  const Vf limit = hn::Set(d, 127.0f);
#pragma GCC unroll 4
  for (int g = 0; g < kScaleBatch; g += kLanes) {
    const auto bits = hn::Load(du, largest + g);
    const Vf amax = hn::BitCast(d, bits);
    const auto finite = hn::Lt(hn::BitCast(Di(), bits), hn::Set(Di(), 0x7f800000));
    const auto usual = hn::And(hn::RebindMask(d, finite), hn::Ge(amax, hn::Set(d, 0x1p-100f)));
    const Vf other = hn::IfThenElse(hn::RebindMask(d, finite), hn::Zero(d),
                                    hn::Set(d, std::numeric_limits<float>::quiet_NaN()));
    hn::Store(hn::IfThenElse(usual, hn::Div(amax, limit), other), d, factors->scales + g);
    hn::Store(hn::IfThenElseZero(usual, hn::Div(limit, amax)), d, factors->inverses + g);
  }
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

HWY_INLINE void QuantizeGroup(const float* x, float scale, float inverse, int64_t group,
                              int8_t* codes, const QuantizedRows& out) {
  out.scales[group] = scale;
  if (inverse == 0.0f) {
    std::memset(codes, 0, static_cast<size_t>(quant::kGroupInputs));
    out.scaled_sums[group] = scale;
    out.half_sums[2 * group] = 0;
    out.half_sums[2 * group + 1] = 0;
    return;
  }
  const int32_t low = QuantizeHalf(x, inverse, codes);
  const int32_t high = QuantizeHalf(x + 16, inverse, codes + 16);
  out.scaled_sums[group] = scale * static_cast<float>(low + high);
  out.half_sums[2 * group] = static_cast<int16_t>(low);
  out.half_sums[2 * group + 1] = static_cast<int16_t>(high);
}

void QuantizeRow(const float* x, int64_t begin, int64_t end, int64_t row,
                 const QuantizedRows& out) {
  const int64_t groups = out.num_inputs / quant::kGroupInputs;
  const int64_t last = end / quant::kGroupInputs;
  for (int64_t first = begin / quant::kGroupInputs; first < last; first += kScaleBatch) {
    const int64_t count = HWY_MIN(last - first, int64_t{kScaleBatch});
    HWY_ALIGN uint32_t largest[kScaleBatch] = {};
    for (int64_t g = 0; g < count; ++g) {
      largest[g] = LargestBits(x + (first + g) * quant::kGroupInputs, quant::kGroupInputs);
    }
    GroupFactors factors;
    FactorsOf(largest, &factors);
    for (int64_t g = 0; g < count; ++g) {
      const int64_t at = (first + g) * quant::kGroupInputs;
      QuantizeGroup(x + at, factors.scales[g], factors.inverses[g], row * groups + first + g,
                    out.codes + row * out.num_inputs + at, out);
    }
  }
}

// Stores the codes of 16 elements in the order of their quads, and returns their sum.
HWY_INLINE int32_t QuantizeHalf16(const float* x, float inverse, int16_t* codes) {
  const Di di;
  const hn::Rebind<int16_t, Di> d16;
  const Vf factor = hn::Set(Df(), inverse);
  Vi sum = hn::Zero(di);
#pragma GCC unroll 4
  for (int k = 0; k < 16; k += kLanes) {
    const Vi code = hn::NearestInt(hn::Mul(hn::LoadU(Df(), x + k), factor));
    // Lanes 0, 2, 1, 3 of each four.
    hn::StoreU(hn::DemoteTo(d16, SwapMiddle(code)), d16, codes + k);
    sum = hn::Add(sum, code);
  }
  return hn::GetLane(hn::SumOfLanes(di, sum));
}

void QuantizeRow16(const float* x, int64_t row, const QuantizedRows16& out) {
  const uint32_t largest = LargestBits(x, out.num_inputs);
  int16_t* codes = out.codes + row * out.num_inputs;
  float* sums = out.half_sums + row * (out.num_inputs / 16);
  float amax;
  std::memcpy(&amax, &largest, 4);
  const bool finite = largest < 0x7f800000u;
  if (!finite || amax < 0x1p-100f) {
    std::memset(codes, 0, static_cast<size_t>(out.num_inputs) * sizeof(int16_t));
    std::memset(sums, 0, static_cast<size_t>(out.num_inputs / 16) * sizeof(float));
    out.scales[row] = finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
    return;
  }
  out.scales[row] = amax / 32767.0f;
  const float inverse = 32767.0f / amax;
  for (int64_t k = 0; k < out.num_inputs; k += 16) {
    sums[k / 16] = static_cast<float>(QuantizeHalf16(x + k, inverse, codes + k));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace octavo::kernels
HWY_AFTER_NAMESPACE();

#endif  // OCTAVO_KERNELS_SIMD_QUANTIZE_INL_H
