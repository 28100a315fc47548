#include "kernels/canonical_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace octavo::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(CanonicalMathTest, ExpIsWithinOneUlpOnADenseSweep) {
  double worst = 0.0;
  for (double x = -87.0; x <= 88.0; x += 5e-5) {
    const float argument = static_cast<float>(x);
    const double exact = std::exp(static_cast<double>(argument));
    const double ulp = std::ldexp(1.0, std::ilogb(exact) - 23);
    worst = std::max(worst, std::fabs(static_cast<double>(Exp(argument)) - exact) / ulp);
  }

  EXPECT_LE(worst, 1.0);
}

TEST(CanonicalMathTest, ExpHandlesTheEdgesOfItsRange) {
  EXPECT_EQ(Exp(0.0f), 1.0f);
  EXPECT_EQ(Exp(-0.0f), 1.0f);
  EXPECT_EQ(Exp(1e-30f), 1.0f);
  EXPECT_EQ(Exp(-kInfinity), 0.0f);
  EXPECT_FALSE(std::signbit(Exp(-kInfinity)));
  EXPECT_EQ(Exp(-87.00001f), 0.0f);
  EXPECT_GT(Exp(-87.0f), 1e-38f);
  EXPECT_EQ(Exp(88.5f), Exp(88.0f));
  EXPECT_EQ(Exp(kInfinity), Exp(88.0f));
  EXPECT_TRUE(std::isnan(Exp(kNaN)));
  // A NaN whose low bits would disturb an exponent that is added to the bits.
  EXPECT_TRUE(std::isnan(Exp(std::bit_cast<float>(0x7fc00001u))));
}

TEST(CanonicalMathTest, LaneTreeAddsHalvesPairwise) {
  float lanes[kLanes];
  for (int i = 0; i < kLanes; ++i) lanes[i] = std::ldexp(1.0f, i);
  EXPECT_EQ(LaneTree(lanes), 65535.0f);

  // 1e8 + -1e8 meet in the first step (lanes 0 and 8), so the small lane survives; a sequential sum
  // would lose it.
  float cancelling[kLanes] = {1e8f, 1.0f, 0, 0, 0, 0, 0, 0, -1e8f};
  EXPECT_EQ(LaneTree(cancelling), 1.0f);
}

TEST(CanonicalMathTest, EveryFloat16ValueSurvivesARoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    const float value = FloatFromFloat16(half);
    const uint32_t magnitude = bits & 0x7fff;
    if (magnitude > 0x7c00) {
      EXPECT_TRUE(std::isnan(value));
    } else if (magnitude == 0x7c00) {
      EXPECT_EQ(Float16FromFloat(value), (bits & 0x8000) | 0x7bff);  // saturates
    } else {
      EXPECT_EQ(Float16FromFloat(value), half);
      const int exponent = static_cast<int>(magnitude >> 10);
      const double significand = (magnitude & 0x3ff) + (exponent > 0 ? 1024 : 0);
      const double exact = std::ldexp(significand, std::max(exponent, 1) - 25);
      EXPECT_EQ(std::fabs(static_cast<double>(value)), exact);
    }
  }
}

TEST(CanonicalMathTest, Float16RoundsToNearestEvenAndSaturates) {
  EXPECT_EQ(Float16FromFloat(1.0f + 0x1p-11f), 0x3c00);             // tie to even, down
  EXPECT_EQ(Float16FromFloat(1.0f + 3 * 0x1p-11f), 0x3c02);         // tie to even, up
  EXPECT_EQ(Float16FromFloat(1.0f + 0x1p-11f + 0x1p-20f), 0x3c01);  // above the tie
  EXPECT_EQ(Float16FromFloat(0x1p-25f), 0x0000);                    // tie with zero
  EXPECT_EQ(Float16FromFloat(0x1.000002p-25f), 0x0001);             // smallest subnormal
  EXPECT_EQ(Float16FromFloat(-0x1.8p-24f), 0x8002);                 // tie between subnormals
  EXPECT_EQ(Float16FromFloat(0x1.ffep-15f), 0x0400);                // up into the normals
  EXPECT_EQ(Float16FromFloat(65519.9f), 0x7bff);
  EXPECT_EQ(Float16FromFloat(1e30f), 0x7bff);
  EXPECT_EQ(Float16FromFloat(-kInfinity), 0xfbff);
  EXPECT_EQ(Float16FromFloat(-0.0f), 0x8000);
  EXPECT_TRUE(std::isnan(FloatFromFloat16(Float16FromFloat(kNaN))));
}

TEST(CanonicalMathTest, BFloat16RoundsToNearestEvenAndKeepsInfinity) {
  EXPECT_EQ(BFloat16FromFloat(1.0f), 0x3f80);
  EXPECT_EQ(BFloat16FromFloat(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(BFloat16FromFloat(1.0f + 3 * 0x1p-8f), 0x3f82);
  EXPECT_EQ(BFloat16FromFloat(kInfinity), 0x7f80);
  EXPECT_EQ(BFloat16FromFloat(-kInfinity), 0xff80);
  EXPECT_TRUE(std::isnan(FloatFromBFloat16(BFloat16FromFloat(kNaN))));
  EXPECT_TRUE(std::isnan(FloatFromBFloat16(BFloat16FromFloat(std::bit_cast<float>(0x7f800001u)))));
}

}  // namespace
}  // namespace octavo::kernels
