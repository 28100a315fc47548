#include "quant/pack_blocks.h"

#include <cstring>

#include "base/check.h"

namespace octavo::quant {
namespace {

using tensor::DType;

uint16_t LoadHalf(const uint8_t* bytes) {
  return static_cast<uint16_t>(bytes[0] | (bytes[1] << 8));
}

uint32_t LoadWord(const uint8_t* bytes) {
  return static_cast<uint32_t>(bytes[0]) | static_cast<uint32_t>(bytes[1]) << 8 |
         static_cast<uint32_t>(bytes[2]) << 16 | static_cast<uint32_t>(bytes[3]) << 24;
}

// 16 bytes of nibbles: elements 0..15 in the low ones, 16..31 in the high ones.
void SplitNibbles(const uint8_t* nibbles, uint8_t* codes) {
  for (int i = 0; i < 16; ++i) {
    codes[i] = nibbles[i] & 15;
    codes[i + 16] = nibbles[i] >> 4;
  }
}

// Adds bit i of `bits` as bit 4 of code i.
void AddFifthBits(uint32_t bits, uint8_t* codes) {
  for (int i = 0; i < 32; ++i) {
    codes[i] = static_cast<uint8_t>(codes[i] | ((bits >> i) & 1) << 4);
  }
}

void SplitQ8_0(const uint8_t* block, BlockParts* parts) {
  parts->d = LoadHalf(block);
  for (int i = 0; i < 32; ++i) parts->codes[i] = block[2 + i] ^ 0x80;
}

// Eight 6-bit scales and eight 6-bit minima in 12 bytes (Q4_K, Q5_K).
void SplitSixBitPairs(const uint8_t* bytes, BlockParts* parts) {
  for (int i = 0; i < 4; ++i) {
    parts->scales[i] = static_cast<int8_t>(bytes[i] & 63);
    parts->minima[i] = static_cast<int8_t>(bytes[i + 4] & 63);
    parts->scales[i + 4] = static_cast<int8_t>((bytes[i + 8] & 15) | (bytes[i] >> 6) << 4);
    parts->minima[i + 4] = static_cast<int8_t>((bytes[i + 8] >> 4) | (bytes[i + 4] >> 6) << 4);
  }
}

// 64 bytes of 2-bit codes: byte l of half n holds elements 128 n + 32 j + l for j = 0..3.
void SplitPairsOfBits(const uint8_t* bytes, uint8_t* codes) {
  for (int n = 0; n < 2; ++n) {
    for (int j = 0; j < 4; ++j) {
      for (int l = 0; l < 32; ++l) {
        codes[128 * n + 32 * j + l] = (bytes[32 * n + l] >> (2 * j)) & 3;
      }
    }
  }
}

void SplitQ2_K(const uint8_t* block, BlockParts* parts) {
  const uint8_t* scales = block;
  const uint8_t* codes = block + 16;
  parts->d = LoadHalf(block + 80);
  parts->minimum = LoadHalf(block + 82);
  for (int i = 0; i < 16; ++i) {
    parts->scales[i] = static_cast<int8_t>(scales[i] & 15);
    parts->minima[i] = static_cast<int8_t>(scales[i] >> 4);
  }
  SplitPairsOfBits(codes, parts->codes);
}

void SplitQ3_K(const uint8_t* block, BlockParts* parts) {
  const uint8_t* high_bits = block;
  const uint8_t* codes = block + 32;
  const uint8_t* scales = block + 96;
  parts->d = LoadHalf(block + 108);
  for (int i = 0; i < 16; ++i) {
    const int low = i < 8 ? scales[i] & 15 : scales[i - 8] >> 4;
    const int high = (scales[8 + i % 4] >> (2 * (i / 4))) & 3;
    parts->scales[i] = static_cast<int8_t>((low | high << 4) - 32);
  }
  SplitPairsOfBits(codes, parts->codes);
  for (int part = 0; part < 8; ++part) {
    for (int l = 0; l < 32; ++l) {
      uint8_t& code = parts->codes[32 * part + l];
      code = static_cast<uint8_t>(code | ((high_bits[l] >> part) & 1) << 2);
    }
  }
}

// 128 bytes of nibbles: each 32 bytes hold 32 elements in the low ones and the next 32 in the high
// ones.
void SplitKNibbles(const uint8_t* bytes, uint8_t* codes) {
  for (int part = 0; part < 4; ++part) {
    for (int l = 0; l < 32; ++l) {
      codes[64 * part + l] = bytes[32 * part + l] & 15;
      codes[64 * part + 32 + l] = bytes[32 * part + l] >> 4;
    }
  }
}

void SplitQ4_K(const uint8_t* block, BlockParts* parts) {
  parts->d = LoadHalf(block);
  parts->minimum = LoadHalf(block + 2);
  SplitSixBitPairs(block + 4, parts);
  SplitKNibbles(block + 16, parts->codes);
}

void SplitQ5_K(const uint8_t* block, BlockParts* parts) {
  const uint8_t* high_bits = block + 16;
  parts->d = LoadHalf(block);
  parts->minimum = LoadHalf(block + 2);
  SplitSixBitPairs(block + 4, parts);
  SplitKNibbles(block + 48, parts->codes);
  for (int part = 0; part < 8; ++part) {
    for (int l = 0; l < 32; ++l) {
      uint8_t& code = parts->codes[32 * part + l];
      code = static_cast<uint8_t>(code | ((high_bits[l] >> part) & 1) << 4);
    }
  }
}

void SplitQ6_K(const uint8_t* block, BlockParts* parts) {
  parts->d = LoadHalf(block + 208);
  std::memcpy(parts->scales, block + 192, 16);
  for (int n = 0; n < 2; ++n) {
    const uint8_t* low = block + 64 * n;
    const uint8_t* high = block + 128 + 32 * n;
    uint8_t* codes = parts->codes + 128 * n;
    for (int l = 0; l < 32; ++l) {
      codes[l] = static_cast<uint8_t>((low[l] & 15) | (high[l] & 3) << 4);
      codes[l + 32] = static_cast<uint8_t>((low[l + 32] & 15) | ((high[l] >> 2) & 3) << 4);
      codes[l + 64] = static_cast<uint8_t>((low[l] >> 4) | ((high[l] >> 4) & 3) << 4);
      codes[l + 96] = static_cast<uint8_t>((low[l + 32] >> 4) | (high[l] >> 6) << 4);
    }
  }
}

}  // namespace

void SplitBlock(DType dtype, const std::byte* stored, BlockParts* parts) {
  const uint8_t* block = reinterpret_cast<const uint8_t*>(stored);
  parts->minimum = 0;
  switch (dtype) {
    case DType::kQ4_0:
    case DType::kIQ4_NL:
      parts->d = LoadHalf(block);
      return SplitNibbles(block + 2, parts->codes);
    case DType::kQ4_1:
      parts->d = LoadHalf(block);
      parts->minimum = LoadHalf(block + 2);
      return SplitNibbles(block + 4, parts->codes);
    case DType::kQ5_0:
      parts->d = LoadHalf(block);
      SplitNibbles(block + 6, parts->codes);
      return AddFifthBits(LoadWord(block + 2), parts->codes);
    case DType::kQ5_1:
      parts->d = LoadHalf(block);
      parts->minimum = LoadHalf(block + 2);
      SplitNibbles(block + 8, parts->codes);
      return AddFifthBits(LoadWord(block + 4), parts->codes);
    case DType::kQ8_0:
      return SplitQ8_0(block, parts);
    case DType::kQ2_K:
      return SplitQ2_K(block, parts);
    case DType::kQ3_K:
      return SplitQ3_K(block, parts);
    case DType::kQ4_K:
      return SplitQ4_K(block, parts);
    case DType::kQ5_K:
      return SplitQ5_K(block, parts);
    case DType::kQ6_K:
      return SplitQ6_K(block, parts);
    default:
      OCTAVO_CHECK(false, "a quantised format");
  }
}

}  // namespace octavo::quant
