#pragma once

// Purpose:    one block of each quantised format, from its stored bytes to float32 values.
// Threading:  pure.
// Invariants: the bytes need no alignment. Each value is computed in the order that the format's
//             function shows, in float32: scale times sub-block scale, times the code, then the
//             minimum; only the last addition or subtraction can round.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tensor/half.h"

namespace octavo::quant {

inline constexpr int kSmallBlock = 32;   // elements
inline constexpr int kSuperBlock = 256;  // elements

inline uint32_t ByteAt(const std::byte* bytes, int index) {
  return std::to_integer<uint32_t>(bytes[index]);
}

// The FP16 value at `stored`, little-endian.
inline float LoadHalf(const std::byte* stored) {
  return tensor::HalfToFloat(static_cast<uint16_t>(ByteAt(stored, 0) | ByteAt(stored, 1) << 8));
}

// Blocks of 32: `out` is [32].
void DecodeBlockQ4_0(const std::byte* block, float* out);
void DecodeBlockQ4_1(const std::byte* block, float* out);
void DecodeBlockQ5_0(const std::byte* block, float* out);
void DecodeBlockQ5_1(const std::byte* block, float* out);
void DecodeBlockQ8_0(const std::byte* block, float* out);
void DecodeBlockIQ4_NL(const std::byte* block, float* out);

// Superblocks of 256: `out` is [256].
void DecodeBlockQ2_K(const std::byte* block, float* out);
void DecodeBlockQ3_K(const std::byte* block, float* out);
void DecodeBlockQ4_K(const std::byte* block, float* out);
void DecodeBlockQ5_K(const std::byte* block, float* out);
void DecodeBlockQ6_K(const std::byte* block, float* out);

}  // namespace octavo::quant
