// Purpose:    floats to integers and to bytes, where the range is known: what general conversions
//             check or saturate costs more than the conversion.

#if defined(OCTAVO_KERNELS_SIMD_ROUNDING_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTAVO_KERNELS_SIMD_ROUNDING_INL_H
#undef OCTAVO_KERNELS_SIMD_ROUNDING_INL_H
#else
#define OCTAVO_KERNELS_SIMD_ROUNDING_INL_H
#endif

#include <cstdint>

#include "kernels/simd/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace octavo::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The nearest integer, ties to even. REQUIRES: |x| < 2^22; of other values it is not specified.
template <class V>
HWY_INLINE hn::Vec<hn::RebindToSigned<hn::DFromV<V>>> RoundToInteger(V x) {
  const hn::DFromV<V> d;
  const hn::RebindToSigned<decltype(d)> di;
  const V magic = hn::Set(d, 0x1.8p23f);  // what is added to it is left in the low bits
  return hn::Sub(hn::BitCast(di, hn::Add(x, magic)), hn::BitCast(di, magic));
}

// Stores 32-bit integers as bytes. REQUIRES: each lies in [-128, 127].
template <class V>
HWY_INLINE void StoreAsBytes(V integers, int8_t* to) {
  const hn::Rebind<int8_t, hn::DFromV<V>> d8;
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(V) == 64) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(integers.raw));
    return;
  }
#endif
  hn::StoreU(hn::DemoteTo(d8, integers), d8, to);
}

}  // namespace HWY_NAMESPACE
}  // namespace octavo::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
