#pragma once

// Purpose:    the scalar primitives of docs/contracts/arithmetic.md that several reference kernels
//             share: Exp (A5), the lane tree, and the conversions of A9; the constants are the
//             vector twins' too.
// Threading:  pure.
// Invariants: always inlined, so that std::fma takes the caller's instruction set; the results are
//             the same on each.

#include <bit>
#include <cmath>
#include <cstdint>

namespace octavo::kernels {

inline constexpr int kLanes = 16;                // the virtual lanes of every reduction
inline constexpr int64_t kLogSumExpBlock = 256;  // elements whose lanes are summed in float32

// e^r on |r| <= ln(2) / 2: a minimax polynomial with its first two coefficients fixed at 1;
// relative error 3.1e-9. kExpPolynomial[k] belongs to r^(6 - k).
inline constexpr float kExpPolynomial[7] = {
    0x1.6a23d0p-10f, 0x1.123a20p-7f, 0x1.5558f2p-5f, 0x1.555492p-3f, 0x1.fffffcp-2f, 1.0f, 1.0f};
inline constexpr float kExpLog2E = 0x1.715476p+0f;
// ln 2 in two parts; the first has 17 bits, so that x - n * ln2_high is exact.
inline constexpr float kExpLn2High = 0x1.62e4p-1f;
inline constexpr float kExpLn2Low = 0x1.7f7d1cp-20f;
inline constexpr float kExpMax = 88.0f;
inline constexpr float kExpMin = -87.0f;
// Adding it rounds |x| < 2^21 to an integer and leaves that integer plus 127 in the low bits of the
// sum.
inline constexpr float kExpRoundMagic = 0x1.8p23f + 127.0f;

[[gnu::always_inline]] inline float Exp(float x) {
  if (x < kExpMin) return 0.0f;
  if (x > kExpMax) x = kExpMax;
  const float shifted = std::fma(x, kExpLog2E, kExpRoundMagic);
  const float n = shifted - kExpRoundMagic;
  float r = std::fma(n, -kExpLn2High, x);
  r = std::fma(n, -kExpLn2Low, r);
  float p = kExpPolynomial[0];
  for (int i = 1; i < 7; ++i) p = std::fma(p, r, kExpPolynomial[i]);
  return p * std::bit_cast<float>(std::bit_cast<uint32_t>(shifted) << 23);
}

[[gnu::always_inline]] inline float Silu(float x) { return x / (1.0f + Exp(-x)); }

// Sums v[16] pairwise in place; the result is v[0].
[[gnu::always_inline]] inline float LaneTree(float* v) {
  for (int s = kLanes / 2; s > 0; s /= 2) {
    for (int i = 0; i < s; ++i) v[i] = v[i] + v[i + s];
  }
  return v[0];
}

// A9. Round to nearest even, saturating at the largest finite value; NaN stays NaN.
[[gnu::always_inline]] inline uint16_t Float16FromFloat(float x) {
  constexpr uint32_t kLargest = 0x477fe000u;         // 65504
  constexpr uint32_t kSmallestNormal = 0x38800000u;  // 2^-14
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= kLargest) return static_cast<uint16_t>(sign | 0x7bffu);
  if (magnitude >= kSmallestNormal) {
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return static_cast<uint16_t>(sign | ((rounded - (112u << 23)) >> 13));
  }
  // Subnormal: adding 0.5 leaves round(|x| * 2^24) in the low bits, rounded to nearest even by the
  // addition itself.
  const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
  return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
}

[[gnu::always_inline]] inline float FloatFromFloat16(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00u) {
    return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  }
  // Exact: the exponent is re-biased by a multiplication, which also normalises a subnormal.
  const float value = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

// A9. Round to nearest even on the integer bits; NaN stays NaN.
[[gnu::always_inline]] inline uint16_t BFloat16FromFloat(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

[[gnu::always_inline]] inline float FloatFromBFloat16(uint16_t half) {
  return std::bit_cast<float>(uint32_t{half} << 16);
}

}  // namespace octavo::kernels
