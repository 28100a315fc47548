// The Highway twin of kernels/canonical_math.h: Exp and the 16 virtual lanes of the contract on
// vectors of any width. It includes kernels/simd/target-inl.h for its includer.

#include "kernels/canonical_math.h"

// clang-format off
#if defined(OCTAVO_KERNELS_SIMD_CANONICAL_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTAVO_KERNELS_SIMD_CANONICAL_MATH_INL_H
#undef OCTAVO_KERNELS_SIMD_CANONICAL_MATH_INL_H
#else
#define OCTAVO_KERNELS_SIMD_CANONICAL_MATH_INL_H
#endif
// clang-format on

#include "kernels/simd/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace octavo::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = HWY_CAPPED(float, kLanes);
using FloatVector = hn::Vec<FloatTag>;

// The 16 virtual lanes are kParts vectors of kWidth lanes.
inline constexpr int kWidth = static_cast<int>(hn::MaxLanes(FloatTag()));
inline constexpr int kParts = kLanes / kWidth;

// As Exp(float) for every x <= 88, and for NaN.
template <class V>
HWY_INLINE V ExpUnclamped(V x) {
  const hn::DFromV<V> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const V magic = hn::Set(d, kExpRoundMagic);
  const V shifted = hn::MulAdd(x, hn::Set(d, kExpLog2E), magic);
  const V n = hn::Sub(shifted, magic);
  V r = hn::MulAdd(n, hn::Set(d, -kExpLn2High), x);
  r = hn::MulAdd(n, hn::Set(d, -kExpLn2Low), r);
  V p = hn::Set(d, kExpPolynomial[0]);
#pragma GCC unroll 6
  for (int i = 1; i < 7; ++i) p = hn::MulAdd(p, r, hn::Set(d, kExpPolynomial[i]));
  const V power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(du, shifted)));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, kExpMin)), hn::Mul(p, power));
}

// As Exp(float), whatever x.
template <class V>
HWY_INLINE V Exp(V x) {
  const V max = hn::Set(hn::DFromV<V>(), kExpMax);
  return ExpUnclamped(hn::IfThenElse(hn::Gt(x, max), max, x));
}

}  // namespace HWY_NAMESPACE
}  // namespace octavo::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
