// Exact integer dot products of 4 pairs of codes per 32-bit lane, for attention over INT8 K and V.
// Codes are in [-127, 127]; a slot that nobody wrote may also hold -128.

// clang-format off
#if defined(OCTAVO_KERNELS_SIMD_ATTENTION_INT8_DOT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTAVO_KERNELS_SIMD_ATTENTION_INT8_DOT_INL_H
#undef OCTAVO_KERNELS_SIMD_ATTENTION_INT8_DOT_INL_H
#else
#define OCTAVO_KERNELS_SIMD_ATTENTION_INT8_DOT_INL_H
#endif
// clang-format on

#include <cstdint>

#include "kernels/simd/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace octavo::kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// `Key` is 4 codes of K in each lane, as KeyDot multiplies them. KeyDot(sum, key, quad): sum + the
// products of the keys with the query's codes in `quad`; a sum starts at KeyStart(sum of the
// query's codes). WeightDot(sum, weights, values): the weights are in [0, 127].
#if HWY_TARGET == HWY_AVX3

// VNNI multiplies unsigned by signed bytes: the keys are k + 128, which adds 128 times the sum of
// the query's codes.
template <class V>
struct Key {
  V code;
};
HWY_INLINE int32_t KeyStart(int32_t query_sum) { return -128 * query_sum; }

template <class V>
HWY_INLINE Key<V> MakeKey(V codes) {
  const hn::DFromV<V> d;
  return {hn::Xor(codes, hn::Set(d, static_cast<int32_t>(0x80808080u)))};
}

// As _mm512_dpbusd_epi32. g++ copies the sum before and after that intrinsic, which costs as much
// as the product itself.
template <class V>
HWY_INLINE V WeightDot(V sum, V weights, V values) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(weights.raw), "v"(values.raw));
  return sum;
}
template <class V>
HWY_INLINE V KeyDot(V sum, Key<V> key, V quad) {
  return WeightDot(sum, key.code, quad);
}

#elif HWY_TARGET == HWY_AVX2

// vpmaddubsw multiplies unsigned by signed bytes and adds two products into 16 bits: |k| times the
// query's code with k's sign is at most 2 * 128 * 127 there.
template <class V>
struct Key {
  V code;
  V magnitude;
};
HWY_INLINE int32_t KeyStart(int32_t /*query_sum*/) { return 0; }

template <class V>
HWY_INLINE Key<V> MakeKey(V codes) {
  return {codes, V{_mm256_abs_epi8(codes.raw)}};
}

using Int256 = hn::Vec256<int32_t>;

HWY_INLINE Int256 WeightDot(Int256 sum, Int256 weights, Int256 values) {
  const __m256i pairs = _mm256_maddubs_epi16(weights.raw, values.raw);
  return hn::Add(sum, Int256{_mm256_madd_epi16(pairs, _mm256_set1_epi16(1))});
}
HWY_INLINE Int256 KeyDot(Int256 sum, Key<Int256> key, Int256 quad) {
  return WeightDot(sum, key.magnitude, Int256{_mm256_sign_epi8(quad.raw, key.code.raw)});
}

#else  // NEON

template <class V>
struct Key {
  V code;
};
HWY_INLINE int32_t KeyStart(int32_t /*query_sum*/) { return 0; }

template <class V>
HWY_INLINE Key<V> MakeKey(V codes) {
  return {codes};
}

using Int128 = hn::Vec128<int32_t>;

// The sum of two products fits 16 bits (2 * 128 * 127), and is widened at once.
HWY_INLINE Int128 WeightDot(Int128 sum, Int128 weights, Int128 values) {
  const int8x16_t a = vreinterpretq_s8_s32(weights.raw);
  const int8x16_t b = vreinterpretq_s8_s32(values.raw);
  const int16x8_t low = vmull_s8(vget_low_s8(a), vget_low_s8(b));
  const int16x8_t high = vmull_high_s8(a, b);
  return Int128{vpadalq_s16(sum.raw, vpaddq_s16(low, high))};
}
HWY_INLINE Int128 KeyDot(Int128 sum, Key<Int128> key, Int128 quad) {
  return WeightDot(sum, key.code, quad);
}

#endif

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace octavo::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
