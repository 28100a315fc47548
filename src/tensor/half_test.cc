#include "tensor/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>

namespace octavo::tensor {
namespace {

uint32_t Bits(float value) { return std::bit_cast<uint32_t>(value); }
float FromBits(uint32_t bits) { return std::bit_cast<float>(bits); }

// IEEE 754's definition of binary16, in binary64, where every value is exact.
double HalfByDefinition(uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int mantissa = half & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(HalfTest, WidensEveryHalfToTheValueOfItsDefinition) {
  for (uint32_t i = 0; i <= 0xffff; ++i) {
    const uint16_t half = static_cast<uint16_t>(i);
    const float widened = HalfToFloat(half);
    if (((i >> 10) & 31) != 31) {
      ASSERT_EQ(Bits(widened), Bits(static_cast<float>(HalfByDefinition(half)))) << i;
    } else if ((i & 1023) == 0) {
      ASSERT_EQ(Bits(widened), (i & 0x8000) != 0 ? 0xff800000u : 0x7f800000u) << i;
    } else {
      ASSERT_TRUE(std::isnan(widened)) << i;
      ASSERT_EQ(std::signbit(widened), (i & 0x8000) != 0) << i;
    }
  }
}

TEST(HalfTest, NarrowsEveryWidenedHalfBackToItself) {
  for (uint32_t i = 0; i <= 0xffff; ++i) {
    const uint16_t half = static_cast<uint16_t>(i);
    const bool is_nan = (i & 0x7fff) > 0x7c00;
    const uint16_t expected = is_nan ? static_cast<uint16_t>(half | 0x200) : half;
    ASSERT_EQ(FloatToHalf(HalfToFloat(half)), expected) << i;
    if ((i & 0x7fff) == 0x7c00) continue;
    ASSERT_EQ(FloatToHalfSaturating(HalfToFloat(half)), expected) << i;
  }
}

TEST(HalfTest, RoundsEveryGapBetweenHalvesToTheNearestAndItsTieToTheEven) {
  for (uint32_t i = 0; i < 0x7bff; ++i) {
    const uint16_t below = static_cast<uint16_t>(i);
    const uint16_t above = static_cast<uint16_t>(i + 1);
    const float tie = static_cast<float>((HalfByDefinition(below) + HalfByDefinition(above)) / 2);
    const uint16_t even = (i & 1) == 0 ? below : above;

    ASSERT_EQ(FloatToHalf(tie), even) << i;
    ASSERT_EQ(FloatToHalf(-tie), even | 0x8000) << i;
    ASSERT_EQ(FloatToHalf(std::nextafter(tie, 0.0f)), below) << i;
    ASSERT_EQ(FloatToHalf(std::nextafter(tie, 1e9f)), above) << i;
  }
}

TEST(HalfTest, OverflowBecomesInfinityOrSaturates) {
  const float infinity = std::numeric_limits<float>::infinity();

  EXPECT_EQ(FloatToHalf(std::nextafter(65520.0f, 0.0f)), 0x7bff);
  EXPECT_EQ(FloatToHalfSaturating(std::nextafter(65520.0f, 0.0f)), 0x7bff);
  for (const float large : {65520.0f, 65536.0f, 3e38f, infinity}) {
    EXPECT_EQ(FloatToHalf(large), 0x7c00) << large;
    EXPECT_EQ(FloatToHalf(-large), 0xfc00) << large;
    EXPECT_EQ(FloatToHalfSaturating(large), 0x7bff) << large;
    EXPECT_EQ(FloatToHalfSaturating(-large), 0xfbff) << large;
  }
}

TEST(HalfTest, NanStaysNanAlsoWhenItsPayloadIsCutOff) {
  for (const uint32_t bits : {0x7fc00000u, 0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffc01234u}) {
    const float nan = FromBits(bits);
    const uint32_t sign = bits >> 16 & 0x8000u;
    for (const uint16_t half : {FloatToHalf(nan), FloatToHalfSaturating(nan)}) {
      EXPECT_GT(half & 0x7fff, 0x7c00) << std::hex << bits;
      EXPECT_EQ(half & 0x8000u, sign) << std::hex << bits;
    }
    EXPECT_GT(FloatToBFloat16(nan) & 0x7fff, 0x7f80) << std::hex << bits;
    EXPECT_EQ(FloatToBFloat16(nan) & 0x8000u, sign) << std::hex << bits;
  }
}

TEST(HalfTest, WidensEveryBFloat16ByAppendingZerosAndNarrowsItBack) {
  for (uint32_t i = 0; i <= 0xffff; ++i) {
    const uint16_t stored = static_cast<uint16_t>(i);
    ASSERT_EQ(Bits(BFloat16ToFloat(stored)), i << 16);
    const bool is_nan = (i & 0x7fff) > 0x7f80;
    ASSERT_EQ(FloatToBFloat16(BFloat16ToFloat(stored)), is_nan ? (i | 0x40) : i);
  }
}

TEST(HalfTest, BFloat16OverflowRoundsToInfinityAndInfinityIsKept) {
  EXPECT_EQ(FloatToBFloat16(FromBits(0x7f7f7fff)), 0x7f7f);
  EXPECT_EQ(FloatToBFloat16(FromBits(0x7f7f8000)), 0x7f80);
  EXPECT_EQ(FloatToBFloat16(FromBits(0xff800000)), 0xff80);
}

TEST(HalfTest, NarrowingEqualsNumpyAndExactArithmetic) {
  std::ifstream golden(std::string(OCTAVO_SOURCE_DIR) + "/tests/golden/quant/narrow.txt");
  ASSERT_TRUE(golden.is_open());
  uint32_t single = 0;
  uint32_t half = 0;
  uint32_t bfloat16 = 0;
  int num_lines = 0;

  while (golden >> std::hex >> single >> half >> bfloat16) {
    EXPECT_EQ(FloatToHalf(FromBits(single)), half) << std::hex << single;
    EXPECT_EQ(FloatToBFloat16(FromBits(single)), bfloat16) << std::hex << single;
    ++num_lines;
  }

  EXPECT_EQ(num_lines, 710);
}

}  // namespace
}  // namespace octavo::tensor
