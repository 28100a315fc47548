#pragma once

// Purpose:    the 16-bit float formats as integer bits: FP16 (IEEE binary16) and BF16, to and from
//             float32. Integer code, so the same bits on every machine and in every rounding mode.
// Threading:  pure.
// Invariants: widening is exact and keeps a NaN's payload. Narrowing rounds to nearest, ties to
//             even; a NaN becomes a quiet NaN of the same sign.

#include <bit>
#include <cstdint>

namespace octavo::tensor {

constexpr float HalfToFloat(uint16_t half) {
  const uint32_t sign = (uint32_t{half} & 0x8000u) << 16;
  const uint32_t exponent = (uint32_t{half} >> 10) & 0x1fu;
  const uint32_t mantissa = uint32_t{half} & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  if (mantissa == 0) return std::bit_cast<float>(sign);
  // Subnormal, mantissa * 2^-24: shift its leading one to bit 10, where the format's hidden one
  // would be.
  const int shift = std::countl_zero(mantissa) - 21;
  const uint32_t fraction = (mantissa << shift) & 0x3ffu;
  return std::bit_cast<float>(sign | static_cast<uint32_t>(113 - shift) << 23 | fraction << 13);
}

namespace internal {

constexpr uint32_t kAbsMask = 0x7fffffffu;
constexpr uint32_t kInfinity = 0x7f800000u;

// The magnitude's bits, below 65520, as FP16: what is left when NaN and overflow are dealt with.
constexpr uint16_t NarrowMagnitude(uint32_t magnitude) {
  constexpr uint32_t kSmallestNormal = 0x38800000u;  // 2^-14
  constexpr uint32_t kHalfOfSmallest = 0x33000000u;  // 2^-25: ties with zero, which is even
  if (magnitude >= kSmallestNormal) {
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return static_cast<uint16_t>((rounded >> 13) - (112u << 10));
  }
  if (magnitude <= kHalfOfSmallest) return 0;
  // Subnormal: a multiple of 2^-24.
  const uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
  const uint32_t shift = 126 - (magnitude >> 23);  // 14 .. 24
  const uint32_t quotient = significand >> shift;
  const uint32_t remainder = significand & ((1u << shift) - 1);
  const uint32_t tie = 1u << (shift - 1);
  const bool up = remainder > tie || (remainder == tie && (quotient & 1u) != 0);
  return static_cast<uint16_t>(quotient + (up ? 1 : 0));
}

constexpr uint16_t NarrowToHalf(float value, uint16_t overflow) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & kAbsMask;
  if (magnitude > kInfinity) {
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  constexpr uint32_t kFirstOverflow = 0x477ff000u;  // 65520, the tie above 65504, which is odd
  if (magnitude >= kFirstOverflow) return static_cast<uint16_t>(sign | overflow);
  return static_cast<uint16_t>(sign | NarrowMagnitude(magnitude));
}

}  // namespace internal

// What is too large becomes an infinity.
constexpr uint16_t FloatToHalf(float value) { return internal::NarrowToHalf(value, 0x7c00u); }

// What is too large, an infinity too, becomes +-65504.
constexpr uint16_t FloatToHalfSaturating(float value) {
  return internal::NarrowToHalf(value, 0x7bffu);
}

constexpr float BFloat16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

// What is too large becomes an infinity.
constexpr uint16_t FloatToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & internal::kAbsMask) > internal::kInfinity) {
    return static_cast<uint16_t>((bits >> 16) | 0x40u);
  }
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace octavo::tensor
