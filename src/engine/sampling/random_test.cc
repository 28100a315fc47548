#include "engine/sampling/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace octavo::engine {
namespace {

// The known-answer vectors that Random123 publishes for philox4x32 with 10 rounds.
TEST(PhiloxTest, GivesRandom123sKnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(UniformDrawTest, TakesTheTopBitsOfTheFirstTwoWords) {
  // Words 0x6627e8d5, 0xe169c58d: the 64-bit number 0xe169c58d6627e8d5 without its lowest 12 bits,
  // plus a half.
  EXPECT_EQ(UniformDraw(0, 0, 0), (static_cast<double>(0xe169c58d6627e) + 0.5) / std::pow(2.0, 52));
}

TEST(UniformDrawTest, ChangesWithEachHalfOfSeedAndPositionAndWithTheStream) {
  const uint64_t high = uint64_t{1} << 32;

  const std::set<double> draws = {
      UniformDraw(0, 0, 0), UniformDraw(1, 0, 0), UniformDraw(high, 0, 0),
      UniformDraw(0, 1, 0), UniformDraw(0, 0, 1), UniformDraw(0, static_cast<int64_t>(high), 0),
  };

  EXPECT_EQ(draws.size(), 6u);
}

// 100 equal bins, 100,000 draws: chi-square with 99 degrees of freedom exceeds 148.2 in one of a
// thousand seeds.
TEST(UniformDrawTest, IsUniformOverPositions) {
  constexpr int kNumBins = 100, kNumDraws = 100000;
  std::array<int, kNumBins> counts{};

  for (int64_t position = 0; position < kNumDraws; ++position) {
    const double u = UniformDraw(7, position, 0);
    ASSERT_TRUE(u > 0.0 && u < 1.0);
    ++counts[static_cast<size_t>(u * kNumBins)];
  }

  double chi_square = 0.0;
  for (int count : counts) chi_square += std::pow(count - 1000.0, 2) / 1000.0;
  EXPECT_LT(chi_square, 148.2);
}

}  // namespace
}  // namespace octavo::engine
