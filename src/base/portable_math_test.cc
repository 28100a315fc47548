#include "base/portable_math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace octavo::base {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Distance of `actual` from the exact value (given in a wider format), in units of the last place
// of the exact value.
double UlpError(double actual, long double exact) {
  int exponent = 0;
  std::frexp(static_cast<double>(exact), &exponent);
  const double ulp = std::ldexp(1.0, std::max(exponent - 53, -1074));
  return static_cast<double>(std::fabs((static_cast<long double>(actual) - exact) / ulp));
}

// A positive, finite double with a uniform exponent and significand.
double RandomPositive(std::mt19937_64& random, int min_exponent, int max_exponent) {
  std::uniform_real_distribution<double> significand(1.0, 2.0);
  std::uniform_int_distribution<int> exponent(min_exponent, max_exponent);
  return std::ldexp(significand(random), exponent(random));
}

TEST(PortableMathTest, ExpIsWithinOneUlpOverItsWholeRange) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> wide(-745.0, 709.7);
  std::uniform_real_distribution<double> narrow(-1.0, 1.0);

  for (int i = 0; i < 200000; ++i) {
    for (const double x : {wide(random), narrow(random)}) {
      ASSERT_LE(UlpError(Exp(x), std::exp(static_cast<long double>(x))), 1.0) << x;
    }
  }
}

TEST(PortableMathTest, ExpHandlesTheEdgesOfItsRange) {
  EXPECT_EQ(Exp(0.0), 1.0);
  EXPECT_EQ(Exp(-0.0), 1.0);
  EXPECT_LE(UlpError(Exp(1.0), 2.71828182845904523536L), 1.0);
  EXPECT_EQ(Exp(kInfinity), kInfinity);
  EXPECT_EQ(Exp(709.8), kInfinity);
  EXPECT_LE(UlpError(Exp(709.75), std::exp(709.75L)), 1.0);
  EXPECT_EQ(Exp(-kInfinity), 0.0);
  EXPECT_EQ(Exp(-746.0), 0.0);
  EXPECT_EQ(Exp(-745.0), std::numeric_limits<double>::denorm_min());
  EXPECT_TRUE(std::isnan(Exp(kNaN)));
}

TEST(PortableMathTest, LogIsWithinOneUlpAlsoNearOneAndForSubnormals) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> near_one(0.5, 1.5);
  std::uniform_real_distribution<double> nearer_one(1.0 - 1e-9, 1.0 + 1e-9);

  for (int i = 0; i < 200000; ++i) {
    for (const double x :
         {RandomPositive(random, -1074, 1023), near_one(random), nearer_one(random)}) {
      ASSERT_LE(UlpError(Log(x), std::log(static_cast<long double>(x))), 1.0) << x;
    }
  }
}

TEST(PortableMathTest, LogHandlesTheEdgesOfItsDomain) {
  EXPECT_EQ(Log(1.0), 0.0);
  EXPECT_EQ(Log(2.718281828459045), 1.0);
  EXPECT_EQ(Log(0.0), -kInfinity);
  EXPECT_EQ(Log(-0.0), -kInfinity);
  EXPECT_EQ(Log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(Log(-1.0)));
  EXPECT_TRUE(std::isnan(Log(-kInfinity)));
  EXPECT_TRUE(std::isnan(Log(kNaN)));
}

TEST(PortableMathTest, PowIsWithinTwoUlpForRotaryFrequencies) {
  for (const double base : {500.0, 10000.0, 100000.0, 500000.0, 1000000.0, 1e9}) {
    for (const int rot_dim : {2, 20, 32, 64, 80, 96, 128, 256}) {
      for (int i = 0; i < rot_dim / 2; ++i) {
        const double exponent = -2.0 * i / rot_dim;
        const long double exact =
            std::pow(static_cast<long double>(base), static_cast<long double>(exponent));
        ASSERT_LE(UlpError(Pow(base, exponent), exact), 2.0) << base << " " << exponent;
      }
    }
  }
}

TEST(PortableMathTest, PowIsWithinTwoUlpForRandomArguments) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> exponent(-20.0, 20.0);

  for (int i = 0; i < 100000; ++i) {
    const double x = RandomPositive(random, -30, 30);
    const double y = exponent(random);
    const long double exact = std::pow(static_cast<long double>(x), static_cast<long double>(y));
    ASSERT_LE(UlpError(Pow(x, y), exact), 2.0) << x << " " << y;
  }
}

TEST(PortableMathTest, PowHandlesExactAndExtremeCases) {
  EXPECT_EQ(Pow(10000.0, 0.0), 1.0);
  EXPECT_EQ(Pow(10000.0, 1.0), 10000.0);
  EXPECT_EQ(Pow(4.0, -0.5), 0.5);
  EXPECT_EQ(Pow(10.0, 400.0), kInfinity);
  EXPECT_EQ(Pow(10.0, -400.0), 0.0);
  EXPECT_EQ(Pow(10.0, 1e300), kInfinity);
  EXPECT_TRUE(std::isnan(Pow(0.0, 1.0)));
  EXPECT_TRUE(std::isnan(Pow(-2.0, 2.0)));
  EXPECT_TRUE(std::isnan(Pow(2.0, kNaN)));
}

TEST(PortableMathTest, SinAndCosAreWithinTheirBoundUpToTwoToTheTwenty) {
  std::mt19937_64 random(4);
  std::uniform_real_distribution<double> wide(-0x1p20, 0x1p20);
  std::uniform_real_distribution<double> narrow(-10.0, 10.0);

  for (int i = 0; i < 200000; ++i) {
    for (const double x : {wide(random), narrow(random), std::trunc(wide(random))}) {
      const SinCosValue value = SinCos(x);
      ASSERT_NEAR(value.sin, std::sin(static_cast<long double>(x)), 1e-15) << x;
      ASSERT_NEAR(value.cos, std::cos(static_cast<long double>(x)), 1e-15) << x;
    }
  }
}

TEST(PortableMathTest, SinAndCosHandleZeroEveryQuadrantAndBadArguments) {
  EXPECT_EQ(Sin(0.0), 0.0);
  EXPECT_EQ(Cos(0.0), 1.0);
  EXPECT_NEAR(Sin(2.0), 0.9092974268256817, 1e-15);
  EXPECT_NEAR(Cos(4.0), -0.6536436208636119, 1e-15);
  EXPECT_NEAR(Sin(-5.0), 0.9589242746631385, 1e-15);
  EXPECT_NEAR(Cos(6.0), 0.9601702866503661, 1e-15);
  EXPECT_TRUE(std::isnan(Sin(kInfinity)));
  EXPECT_TRUE(std::isnan(Cos(kNaN)));
  EXPECT_TRUE(std::isnan(Cos(1e12)));
}

// The bits themselves, so that another machine or compiler that disagrees is caught. FNV-1a over
// the results of a fixed walk.
TEST(PortableMathTest, ResultsHaveTheSameBitsOnEveryMachine) {
  uint64_t hash = 0xcbf29ce484222325u;
  const auto mix = [&hash](double value) {
    hash = (hash ^ std::bit_cast<uint64_t>(value)) * 0x100000001b3u;
  };
  for (int i = 1; i <= 20000; ++i) {
    const double x = i * 0.03125 + 1.0 / i;
    mix(Exp(x - 300.0));
    mix(Log(x));
    mix(Pow(x, -0.37));
    mix(Sin(x * 51.0));
    mix(Cos(x * 51.0));
  }
  EXPECT_EQ(hash, 7897061021894197155u);
}

}  // namespace
}  // namespace octavo::base
