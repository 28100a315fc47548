// The K formats: superblocks of 256 elements with one FP16 scale, and sub-blocks of 16 or 32 with
// small integer scales.

#include "quant/decode_blocks.h"

namespace octavo::quant {
namespace {

// The 2-bit code of element i (0 .. 255): each run of 32 bytes holds 128 elements, 32 per bit pair.
uint32_t TwoBitsAt(const std::byte* codes, int i) {
  return (ByteAt(codes, i / 128 * 32 + i % 32) >> (i % 128 / 32 * 2)) & 3u;
}

// The nibble of element i of Q4_K and Q5_K: each run of 32 bytes holds 64 elements, the low nibbles
// first.
uint32_t NibbleAt(const std::byte* nibbles, int i) {
  return (ByteAt(nibbles, i / 64 * 32 + i % 32) >> (i % 64 / 32 * 4)) & 15u;
}

struct ScaleAndMinimum {
  float scale;    // integer, 0 .. 63
  float minimum;  // integer, 0 .. 63
};

// Sub-block j (0 .. 7) of the 12 bytes that hold eight 6-bit scales and eight 6-bit minima: 0 .. 3
// whole in bytes 0 .. 7, 4 .. 7 with four bits in bytes 8 .. 11 and their upper two in the upper
// bits of bytes 0 .. 7.
ScaleAndMinimum SixBitScales(const std::byte* packed, int j) {
  if (j < 4) {
    return {static_cast<float>(ByteAt(packed, j) & 63u),
            static_cast<float>(ByteAt(packed, j + 4) & 63u)};
  }
  const uint32_t low = ByteAt(packed, j + 4);
  return {static_cast<float>((low & 15u) | ByteAt(packed, j - 4) >> 6 << 4),
          static_cast<float>(low >> 4 | ByteAt(packed, j) >> 6 << 4)};
}

// Sub-block j (0 .. 15) of the 12 bytes that hold sixteen 6-bit scales of Q3_K: the low four bits
// are nibbles of bytes 0 .. 7, the high two lie in bytes 8 .. 11, four scales to a byte.
float Q3Scale(const std::byte* packed, int j) {
  const uint32_t low = (ByteAt(packed, j % 8) >> (j / 8 * 4)) & 15u;
  const uint32_t high = (ByteAt(packed, 8 + j % 4) >> (j / 4 * 2)) & 3u;
  return static_cast<float>(static_cast<int>(low | high << 4) - 32);
}

}  // namespace

// u8 scales[16] (low nibble the scale, high nibble the minimum); 2-bit codes[64 bytes]; f16 scale;
// f16 minimum scale.
void DecodeBlockQ2_K(const std::byte* block, float* out) {
  const float d = LoadHalf(block + 80);
  const float dmin = LoadHalf(block + 82);
  for (int i = 0; i < kSuperBlock; ++i) {
    const uint32_t packed = ByteAt(block, i / 16);
    const float scale = d * static_cast<float>(packed & 15u);
    const float minimum = dmin * static_cast<float>(packed >> 4);
    out[i] = scale * static_cast<float>(TwoBitsAt(block + 16, i)) - minimum;
  }
}

// high bits[32 bytes]; 2-bit codes[64 bytes]; scales[12 bytes]; f16 scale. High bit i / 32 of byte
// i % 32 belongs to element i; where it is clear the code is lowered by 4.
void DecodeBlockQ3_K(const std::byte* block, float* out) {
  const float d = LoadHalf(block + 108);
  for (int i = 0; i < kSuperBlock; ++i) {
    const uint32_t high = (ByteAt(block, i % 32) >> (i / 32)) & 1u;
    const int code = static_cast<int>(TwoBitsAt(block + 32, i)) - (high != 0 ? 0 : 4);
    const float scale = d * Q3Scale(block + 96, i / 16);
    out[i] = scale * static_cast<float>(code);
  }
}

// f16 scale; f16 minimum scale; scales[12 bytes]; nibbles[128 bytes].
void DecodeBlockQ4_K(const std::byte* block, float* out) {
  const float d = LoadHalf(block);
  const float dmin = LoadHalf(block + 2);
  for (int i = 0; i < kSuperBlock; ++i) {
    const ScaleAndMinimum sub = SixBitScales(block + 4, i / 32);
    const float code = static_cast<float>(NibbleAt(block + 16, i));
    out[i] = d * sub.scale * code - dmin * sub.minimum;
  }
}

// f16 scale; f16 minimum scale; scales[12 bytes]; high bits[32 bytes]; nibbles[128 bytes]. High bit
// i / 32 of byte i % 32 belongs to element i.
void DecodeBlockQ5_K(const std::byte* block, float* out) {
  const float d = LoadHalf(block);
  const float dmin = LoadHalf(block + 2);
  for (int i = 0; i < kSuperBlock; ++i) {
    const ScaleAndMinimum sub = SixBitScales(block + 4, i / 32);
    const uint32_t high = (ByteAt(block + 16, i % 32) >> (i / 32)) & 1u;
    const float code = static_cast<float>(NibbleAt(block + 48, i) | high << 4);
    out[i] = d * sub.scale * code - dmin * sub.minimum;
  }
}

// low nibbles[128 bytes]; 2-bit high codes[64 bytes]; i8 scales[16]; f16 scale. Each run of 64
// nibble bytes holds 128 elements, the low nibbles first.
void DecodeBlockQ6_K(const std::byte* block, float* out) {
  const float d = LoadHalf(block + 208);
  for (int i = 0; i < kSuperBlock; ++i) {
    const uint32_t low = (ByteAt(block, i / 128 * 64 + i % 64) >> (i % 128 / 64 * 4)) & 15u;
    const int code = static_cast<int>(low | TwoBitsAt(block + 128, i) << 4) - 32;
    const float sub_scale = static_cast<float>(static_cast<int8_t>(ByteAt(block + 192, i / 16)));
    out[i] = d * sub_scale * static_cast<float>(code);
  }
}

}  // namespace octavo::quant
