#include "base/checked_math.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace octavo::base {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

TEST(CheckedMathTest, AddsUpToTheLimitAndNotPastIt) {
  EXPECT_EQ(CheckedAdd(kMax - 1, int64_t{1}), kMax);
  EXPECT_EQ(CheckedAdd(kMax, int64_t{1}), std::nullopt);
  EXPECT_EQ(CheckedAdd(kMin, int64_t{-1}), std::nullopt);
  EXPECT_EQ(CheckedAdd<uint8_t>(200, 56), std::nullopt);
}

TEST(CheckedMathTest, MultipliesUpToTheLimitAndNotPastIt) {
  EXPECT_EQ(CheckedMultiply(int64_t{1} << 31, int64_t{1} << 31), int64_t{1} << 62);
  EXPECT_EQ(CheckedMultiply(int64_t{1} << 32, int64_t{1} << 31), std::nullopt);
  EXPECT_EQ(CheckedMultiply(kMin, int64_t{-1}), std::nullopt);
}

TEST(CheckedMathTest, AnOverflowInTheMiddleOfAProductIsNotUndoneByAZero) {
  EXPECT_EQ(CheckedProduct(int64_t{2}, int64_t{3}, int64_t{7}), 42);
  EXPECT_EQ(CheckedProduct(kMax, int64_t{2}, int64_t{0}), std::nullopt);
}

TEST(CheckedMathTest, RoundsUpToAMultipleUnlessItOverflows) {
  EXPECT_EQ(CheckedRoundUp<uint64_t>(0, 64), 0u);
  EXPECT_EQ(CheckedRoundUp<uint64_t>(1, 64), 64u);
  EXPECT_EQ(CheckedRoundUp<uint64_t>(64, 64), 64u);
  EXPECT_EQ(CheckedRoundUp<uint8_t>(250, 64), std::nullopt);
}

TEST(CheckedMathTest, CeilDivideDoesNotOverflowAtTheLimit) {
  EXPECT_EQ(CeilDivide(int64_t{0}, int64_t{16}), 0);
  EXPECT_EQ(CeilDivide(int64_t{16}, int64_t{16}), 1);
  EXPECT_EQ(CeilDivide(int64_t{17}, int64_t{16}), 2);
  EXPECT_EQ(CeilDivide(kMax, int64_t{2}), kMax / 2 + 1);
}

}  // namespace
}  // namespace octavo::base
