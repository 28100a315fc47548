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
#include "kernels/simd/rounding-inl.h"
#include "kernels/simd/target-inl.h"
#include "quant/packed_format.h"

HWY_BEFORE_NAMESPACE();
namespace octavo::kernels {
namespace HWY_NAMESPACE {

// Groups that are quantised together: their reductions share steps.
inline constexpr int kGroupBatch = 4;
using D4 = hn::CappedTag<int32_t, kGroupBatch>;
using Df4 = hn::RebindToFloat<D4>;
using D16 = hn::Repartition<int16_t, Di>;
using D8x16 = hn::CappedTag<int16_t, 2 * kGroupBatch>;

// The blocks of 128 bits of v, joined by `op`.
template <class V, class Op>
HWY_INLINE auto JoinBlocks(V v, const Op& op) {
  const hn::DFromV<V> d;
  if constexpr (sizeof(hn::TFromV<V>) * hn::MaxLanes(d) == 16) {
    return v;
  } else {
    const hn::Half<decltype(d)> half;
    return JoinBlocks(op(hn::LowerHalf(half, v), hn::UpperHalf(half, v)), op);
  }
}

// Lane i of the result: the lanes of v[i], joined by `op`.
template <class Op>
HWY_INLINE hn::Vec<D4> ReduceEach(const Vi (&v)[kGroupBatch], const Op& op) {
  const Di d;
  const hn::Repartition<int64_t, Di> d64;
  const Vi first = op(hn::InterleaveLower(d, v[0], v[1]), hn::InterleaveUpper(d, v[0], v[1]));
  const Vi second = op(hn::InterleaveLower(d, v[2], v[3]), hn::InterleaveUpper(d, v[2], v[3]));
  const auto low = hn::BitCast(d64, first);
  const auto high = hn::BitCast(d64, second);
  const Vi joined = op(hn::BitCast(d, hn::InterleaveLower(d64, low, high)),
                       hn::BitCast(d, hn::InterleaveUpper(d64, low, high)));
  return JoinBlocks(joined, op);
}

// Lanes 2g and 2g + 1 of the result: the sums of low[g] and high[g]. REQUIRES: each lane lies in
// [-2^9, 2^9], and so every sum in the range of 16 bits.
HWY_INLINE hn::Vec<D8x16> SumHalves(const Vi (&low)[kGroupBatch], const Vi (&high)[kGroupBatch]) {
  const D16 d16;
  const Vi ones = hn::BitCast(Di(), hn::Set(d16, int16_t{1}));
  // Neighbours in a block of 128 bits are added.
  const auto pack = [=](Vi a, Vi b)
                        HWY_ATTR { return hn::BitCast(Di(), hn::ReorderDemote2To(d16, a, b)); };
  Vi pairs[kGroupBatch];
#pragma GCC unroll 4
  for (int g = 0; g < kGroupBatch; ++g) pairs[g] = PairDot(pack(low[g], high[g]), ones);
  const Vi first = PairDot(pack(pairs[0], pairs[1]), ones);
  const Vi second = PairDot(pack(pairs[2], pairs[3]), ones);
  return JoinBlocks(hn::BitCast(d16, pack(first, second)),
                    [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
}

// Lane by lane, the largest absolute value of some elements as bits: as integers, so that a NaN is
// the largest.
HWY_INLINE Vi LargestLanes(const float* x, int64_t count) {
  const Vi absolute = hn::Set(Di(), 0x7fffffff);
  Vi largest = hn::Zero(Di());
#pragma GCC unroll 8
  for (int64_t k = 0; k < count; k += kLanes) {
    largest = hn::Max(largest, hn::And(hn::BitCast(Di(), hn::LoadU(Df(), x + k)), absolute));
  }
  return largest;
}

// Stores the codes of one half (16 elements) and returns their sum, lane by lane.
HWY_INLINE Vi QuantizeHalf(const float* x, float inverse, int8_t* codes) {
  const Vf factor = hn::Set(Df(), inverse);
  Vi sum = hn::Zero(Di());
#pragma GCC unroll 4
  for (int k = 0; k < 16; k += kLanes) {
    const Vi code = RoundToInteger(hn::Mul(hn::LoadU(Df(), x + k), factor));
    StoreAsBytes(code, codes + k);
    sum = hn::Add(sum, code);
  }
  return sum;
}

// What A3 gives for each of some groups.
struct GroupBatch {
  HWY_ALIGN float scales[kGroupBatch];
  HWY_ALIGN float inverses[kGroupBatch];  // 0 where all codes are 0
  HWY_ALIGN float scaled_sums[kGroupBatch];
  HWY_ALIGN int16_t half_sums[2 * kGroupBatch];
};

// `largest`: the bits of the largest absolute values.
HWY_INLINE void ScalesOf(hn::Vec<D4> largest, GroupBatch* batch) {
  const Df4 d;
  const auto limit = hn::Set(d, 127.0f);
  const auto amax = hn::BitCast(d, largest);
  const auto finite = hn::RebindMask(d, hn::Lt(largest, hn::Set(D4(), 0x7f800000)));
  const auto usual = hn::And(finite, hn::Ge(amax, hn::Set(d, 0x1p-100f)));
  const auto nan = hn::Set(d, std::numeric_limits<float>::quiet_NaN());
  const auto other = hn::IfThenElse(finite, hn::Zero(d), nan);
  hn::Store(hn::IfThenElse(usual, hn::Div(amax, limit), other), d, batch->scales);
  hn::Store(hn::IfThenElseZero(usual, hn::Div(limit, amax)), d, batch->inverses);
}

// The codes and sums of `count` groups from x on. Where the scale is NaN the sum of the codes is 0,
// and 0 * NaN a NaN.
HWY_INLINE void CodesOf(const float* x, int count, int8_t* codes, GroupBatch* batch) {
  Vi low[kGroupBatch];
  Vi high[kGroupBatch];
#pragma GCC unroll 4
  for (int g = 0; g < kGroupBatch; ++g) {
    low[g] = high[g] = hn::Zero(Di());
    if (g >= count) continue;
    int8_t* const to = codes + g * quant::kGroupInputs;
    if (batch->inverses[g] == 0.0f) {
      std::memset(to, 0, static_cast<size_t>(quant::kGroupInputs));
      continue;
    }
    const float* const from = x + g * quant::kGroupInputs;
    low[g] = QuantizeHalf(from, batch->inverses[g], to);
    high[g] = QuantizeHalf(from + 16, batch->inverses[g], to + 16);
  }
  const D8x16 d16;
  const auto half_sums = SumHalves(low, high);
  hn::Store(half_sums, d16, batch->half_sums);
  const auto sums = hn::Add(hn::ShiftRight<16>(hn::BitCast(D4(), half_sums)),
                            hn::ShiftRight<16>(hn::ShiftLeft<16>(hn::BitCast(D4(), half_sums))));
  hn::Store(hn::Mul(hn::Load(Df4(), batch->scales), hn::ConvertTo(Df4(), sums)), Df4(),
            batch->scaled_sums);
}

// Stores what belongs to `count` groups from the one at index `group` on.
HWY_INLINE void StoreGroups(const GroupBatch& batch, int count, int64_t group,
                            const QuantizedRows& out) {
  if (count == kGroupBatch) {
    hn::StoreU(hn::Load(Df4(), batch.scales), Df4(), out.scales + group);
    hn::StoreU(hn::Load(Df4(), batch.scaled_sums), Df4(), out.scaled_sums + group);
    hn::StoreU(hn::Load(D8x16(), batch.half_sums), D8x16(), out.half_sums + 2 * group);
    return;
  }
  for (int g = 0; g < count; ++g) {
    out.scales[group + g] = batch.scales[g];
    out.scaled_sums[group + g] = batch.scaled_sums[g];
    out.half_sums[2 * (group + g)] = batch.half_sums[2 * g];
    out.half_sums[2 * (group + g) + 1] = batch.half_sums[2 * g + 1];
  }
}

void QuantizeRow(const float* x, int64_t begin, int64_t end, int64_t row,
                 const QuantizedRows& out) {
  const int64_t first_group = row * (out.num_inputs / quant::kGroupInputs);
  for (int64_t at = begin; at < end; at += kGroupBatch * quant::kGroupInputs) {
    const int count = static_cast<int>(HWY_MIN((end - at) / quant::kGroupInputs, kGroupBatch));
    GroupBatch batch;
    Vi largest[kGroupBatch];
#pragma GCC unroll 4
    for (int g = 0; g < kGroupBatch; ++g) {
      largest[g] = g < count ? LargestLanes(x + at + g * quant::kGroupInputs, quant::kGroupInputs)
                             : hn::Zero(Di());
    }
    const auto max = [](auto a, auto b) HWY_ATTR { return hn::Max(a, b); };
    ScalesOf(ReduceEach(largest, max), &batch);
    CodesOf(x + at, count, out.codes + row * out.num_inputs + at, &batch);
    StoreGroups(batch, count, first_group + at / quant::kGroupInputs, out);
  }
}

// Stores the codes of 16 elements, whole and in bytes, and returns their sum, lane by lane.
HWY_INLINE Vi QuantizeHalf16(const float* x, float inverse, int16_t* codes, uint8_t* bytes) {
  const Di di;
  const hn::Rebind<int16_t, Di> d16;
  const hn::Rebind<int8_t, Di> d8;
  const hn::Rebind<uint8_t, Di> du8;
  HWY_ALIGN int8_t high[16];
  HWY_ALIGN uint8_t low[16];
  const Vf factor = hn::Set(Df(), inverse);
  Vi sum = hn::Zero(di);
#pragma GCC unroll 4
  for (int k = 0; k < 16; k += kLanes) {
    const Vi code = RoundToInteger(hn::Mul(hn::LoadU(Df(), x + k), factor));
    // Lanes 0, 2, 1, 3 of each four.
    hn::StoreU(hn::DemoteTo(d16, SwapMiddle(code)), d16, codes + k);
    hn::StoreU(hn::DemoteTo(d8, hn::ShiftRight<8>(code)), d8, high + k);
    hn::StoreU(hn::DemoteTo(du8, hn::And(code, hn::Set(di, 0xff))), du8, low + k);
    sum = hn::Add(sum, code);
  }
  const hn::CappedTag<uint32_t, 4> d32;
  const auto high_quads = hn::Load(d32, reinterpret_cast<const uint32_t*>(high));
  const auto low_quads = hn::Load(d32, reinterpret_cast<const uint32_t*>(low));
  auto* quads = reinterpret_cast<uint32_t*>(bytes);
  hn::StoreU(hn::InterleaveLower(d32, high_quads, low_quads), d32, quads);
  hn::StoreU(hn::InterleaveUpper(d32, high_quads, low_quads), d32, quads + 4);
  return sum;
}

void QuantizeRow16(const float* x, int64_t row, const QuantizedRows16& out) {
  const auto largest =
      static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(Di(), LargestLanes(x, out.num_inputs))));
  int16_t* codes = out.codes + row * out.num_inputs;
  uint8_t* bytes = out.bytes + 2 * row * out.num_inputs;
  float* sums = out.half_sums + row * (out.num_inputs / 16);
  float amax;
  std::memcpy(&amax, &largest, 4);
  const bool finite = largest < 0x7f800000u;
  if (!finite || amax < 0x1p-100f) {
    std::memset(codes, 0, static_cast<size_t>(out.num_inputs) * sizeof(int16_t));
    std::memset(bytes, 0, static_cast<size_t>(out.num_inputs) * 2);
    std::memset(sums, 0, static_cast<size_t>(out.num_inputs / 16) * sizeof(float));
    out.scales[row] = finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
    return;
  }
  out.scales[row] = amax / 32767.0f;
  const float inverse = 32767.0f / amax;
  const int64_t num_halves = out.num_inputs / 16;
  for (int64_t first = 0; first < num_halves; first += kGroupBatch) {
    Vi lanes[kGroupBatch];
#pragma GCC unroll 4
    for (int h = 0; h < kGroupBatch; ++h) {
      const int64_t k = (first + h) * 16;
      lanes[h] = first + h < num_halves ? QuantizeHalf16(x + k, inverse, codes + k, bytes + 2 * k)
                                        : hn::Zero(Di());
    }
    const auto add = [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); };
    HWY_ALIGN int32_t joined[kGroupBatch];
    hn::Store(ReduceEach(lanes, add), D4(), joined);
    for (int h = 0; h < kGroupBatch && first + h < num_halves; ++h) {
      sums[first + h] = static_cast<float>(joined[h]);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace octavo::kernels
HWY_AFTER_NAMESPACE();

#endif  // OCTAVO_KERNELS_SIMD_QUANTIZE_INL_H
