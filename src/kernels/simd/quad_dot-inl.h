// Purpose:    the integer products of a vector of weight codes and a quad of activations (4
//             consecutive inputs), for one target. Lane i of a vector of codes holds the quad's 4
//             codes of output i.
// Invariants: every sum is exact: see the bounds at each form.

#if defined(OCTAVO_KERNELS_SIMD_QUAD_DOT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTAVO_KERNELS_SIMD_QUAD_DOT_INL_H
#undef OCTAVO_KERNELS_SIMD_QUAD_DOT_INL_H
#else
#define OCTAVO_KERNELS_SIMD_QUAD_DOT_INL_H
#endif

#include <cstdint>
#include <cstring>

#include "kernels/simd/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace octavo::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Df = hn::CappedTag<float, 16>;
using Di = hn::Rebind<int32_t, Df>;
using D8 = hn::Repartition<uint8_t, Di>;
using Vf = hn::Vec<Df>;
using Vi = hn::Vec<Di>;
using V8 = hn::Vec<D8>;

inline constexpr int kLanes = HWY_LANES(float) < 16 ? HWY_LANES(float) : 16;

// A quad of activations, or a pair of 16-bit ones or of half sums, in every lane.
HWY_INLINE Vi BroadcastWord(const void* bytes) {
  int32_t word;
  std::memcpy(&word, bytes, 4);
  return hn::Set(Di(), word);
}

// QuadDot<kMaxCode> multiplies unsigned codes up to kMaxCode (kUnsigned), or signed ones, by
// activations in [-127, 127]; VNNI's any unsigned bytes by any signed ones. Partial sums accumulate
// in `Sum` for up to kQuadsPerFlush quads; Flush widens them to the 32-bit sums.
#if HWY_TARGET == HWY_AVX3

template <int kMaxCode>
struct QuadDot {
  using Sum = Vi;
  static constexpr bool kUnsigned = true;
  static constexpr int kQuadsPerFlush = 8;

  static HWY_INLINE Sum Start() { return hn::Zero(Di()); }
  static HWY_INLINE Sum Add(Sum sum, V8 codes, Vi quad) {
    return Vi{_mm512_dpbusd_epi32(sum.raw, codes.raw, quad.raw)};
  }
  static HWY_INLINE Vi Flush(Sum sum) { return sum; }
};

HWY_INLINE Vi PairDot(Vi a, Vi b) { return Vi{_mm512_madd_epi16(a.raw, b.raw)}; }

// Lanes 0, 2, 1, 3 of each four.
HWY_INLINE Vi SwapMiddle(Vi v) {
  return Vi{_mm512_shuffle_epi32(v.raw, static_cast<_MM_PERM_ENUM>(_MM_SHUFFLE(3, 1, 2, 0)))};
}

HWY_INLINE Vi AddPairDot(Vi sum, Vi a, Vi b) {
  return Vi{_mm512_dpwssd_epi32(sum.raw, a.raw, b.raw)};
}

#elif HWY_TARGET == HWY_AVX2

// vpmaddubsw adds two products into 16 bits: of codes up to 63 it takes at least two such sums, of
// codes up to 15 eight.
template <int kMaxCode, bool kSmall = (kMaxCode <= 63)>
struct QuadDot {
  using Sum = hn::Vec<hn::Repartition<int16_t, Di> >;
  static constexpr bool kUnsigned = true;
  static constexpr int kQuadsPerFlush = kMaxCode <= 15 ? 8 : kMaxCode <= 31 ? 4 : 2;
  static_assert(kQuadsPerFlush * 2 * kMaxCode * 127 <= 32767);

  static HWY_INLINE Sum Start() { return hn::Zero(hn::Repartition<int16_t, Di>()); }
  static HWY_INLINE Sum Add(Sum sum, V8 codes, Vi quad) {
    return hn::Add(sum, Sum{_mm256_maddubs_epi16(codes.raw, quad.raw)});
  }
  static HWY_INLINE Vi Flush(Sum sum) {
    return Vi{_mm256_madd_epi16(sum.raw, _mm256_set1_epi16(1))};
  }
};

// Signed codes of 8 bits: |code| as the unsigned operand, its sign moved to the activation; 2 * 128
// * 127 fits 16 bits.
template <int kMaxCode>
struct QuadDot<kMaxCode, false> {
  using Sum = Vi;
  static constexpr bool kUnsigned = false;
  static constexpr int kQuadsPerFlush = 8;

  static HWY_INLINE Sum Start() { return hn::Zero(Di()); }
  static HWY_INLINE Sum Add(Sum sum, V8 codes, Vi quad) {
    const __m256i pairs =
        _mm256_maddubs_epi16(_mm256_abs_epi8(codes.raw), _mm256_sign_epi8(quad.raw, codes.raw));
    return hn::Add(sum, Vi{_mm256_madd_epi16(pairs, _mm256_set1_epi16(1))});
  }
  static HWY_INLINE Vi Flush(Sum sum) { return sum; }
};

HWY_INLINE Vi PairDot(Vi a, Vi b) { return Vi{_mm256_madd_epi16(a.raw, b.raw)}; }

HWY_INLINE Vi SwapMiddle(Vi v) { return Vi{_mm256_shuffle_epi32(v.raw, _MM_SHUFFLE(3, 1, 2, 0))}; }

HWY_INLINE Vi AddPairDot(Vi sum, Vi a, Vi b) { return hn::Add(sum, PairDot(a, b)); }

#else  // NEON

// Signed codes: the sum of two products fits 16 bits (2 * 128 * 127), and is widened at once.
template <int kMaxCode>
struct QuadDot {
  using Sum = Vi;
  static constexpr bool kUnsigned = false;
  static constexpr int kQuadsPerFlush = 8;

  static HWY_INLINE Sum Start() { return hn::Zero(Di()); }
  static HWY_INLINE Sum Add(Sum sum, V8 codes, Vi quad) {
    const int8x16_t q = vreinterpretq_s8_u8(codes.raw);
    const int8x16_t a = vreinterpretq_s8_s32(quad.raw);
    const int16x8_t low = vmull_s8(vget_low_s8(q), vget_low_s8(a));
    const int16x8_t high = vmull_high_s8(q, a);
    return Vi{vpadalq_s16(sum.raw, vpaddq_s16(low, high))};
  }
  static HWY_INLINE Vi Flush(Sum sum) { return sum; }
};

HWY_INLINE Vi PairDot(Vi a, Vi b) {
  const int16x8_t x = vreinterpretq_s16_s32(a.raw);
  const int16x8_t y = vreinterpretq_s16_s32(b.raw);
  return Vi{vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y))};
}

HWY_INLINE Vi SwapMiddle(Vi v) {
  return Vi{vcopyq_laneq_s32(vcopyq_laneq_s32(v.raw, 1, v.raw, 2), 2, v.raw, 1)};
}

HWY_INLINE Vi AddPairDot(Vi sum, Vi a, Vi b) { return hn::Add(sum, PairDot(a, b)); }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace octavo::kernels
HWY_AFTER_NAMESPACE();

#endif  // OCTAVO_KERNELS_SIMD_QUAD_DOT_INL_H
