// The formats with blocks of 32. Nibbles: byte j holds element j in its low half and element j + 16
// in its high half.

#include "quant/decode_blocks.h"

namespace octavo::quant {
namespace {

constexpr int kHalfBlock = kSmallBlock / 2;

constexpr int8_t kIQ4NLValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};

// The 4-bit code of element j (0 .. 31).
int NibbleAt(const std::byte* nibbles, int j) {
  return static_cast<int>(j < kHalfBlock ? ByteAt(nibbles, j) & 15u
                                         : ByteAt(nibbles, j - kHalfBlock) >> 4);
}

// The 5-bit code of element j: its fifth bit is bit j of the little-endian word `high_bits`.
int FiveBitsAt(const std::byte* high_bits, const std::byte* nibbles, int j) {
  const uint32_t high = (ByteAt(high_bits, j / 8) >> (j % 8)) & 1u;
  return NibbleAt(nibbles, j) | static_cast<int>(high << 4);
}

}  // namespace

// f16 scale; nibbles[16].
void DecodeBlockQ4_0(const std::byte* block, float* out) {
  const float scale = LoadHalf(block);
  for (int j = 0; j < kSmallBlock; ++j) {
    out[j] = scale * static_cast<float>(NibbleAt(block + 2, j) - 8);
  }
}

// f16 scale; f16 minimum; nibbles[16].
void DecodeBlockQ4_1(const std::byte* block, float* out) {
  const float scale = LoadHalf(block);
  const float minimum = LoadHalf(block + 2);
  for (int j = 0; j < kSmallBlock; ++j) {
    out[j] = scale * static_cast<float>(NibbleAt(block + 4, j)) + minimum;
  }
}

// f16 scale; u32 high bits; nibbles[16].
void DecodeBlockQ5_0(const std::byte* block, float* out) {
  const float scale = LoadHalf(block);
  for (int j = 0; j < kSmallBlock; ++j) {
    out[j] = scale * static_cast<float>(FiveBitsAt(block + 2, block + 6, j) - 16);
  }
}

// f16 scale; f16 minimum; u32 high bits; nibbles[16].
void DecodeBlockQ5_1(const std::byte* block, float* out) {
  const float scale = LoadHalf(block);
  const float minimum = LoadHalf(block + 2);
  for (int j = 0; j < kSmallBlock; ++j) {
    out[j] = scale * static_cast<float>(FiveBitsAt(block + 4, block + 8, j)) + minimum;
  }
}

// f16 scale; i8 codes[32].
void DecodeBlockQ8_0(const std::byte* block, float* out) {
  const float scale = LoadHalf(block);
  for (int j = 0; j < kSmallBlock; ++j) {
    out[j] = scale * static_cast<float>(static_cast<int8_t>(ByteAt(block + 2, j)));
  }
}

// f16 scale; nibbles[16], each an index into a table.
void DecodeBlockIQ4_NL(const std::byte* block, float* out) {
  const float scale = LoadHalf(block);
  for (int j = 0; j < kSmallBlock; ++j) {
    out[j] = scale * static_cast<float>(kIQ4NLValues[NibbleAt(block + 2, j)]);
  }
}

}  // namespace octavo::quant
