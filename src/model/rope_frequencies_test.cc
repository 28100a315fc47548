// The angles of RoPE and their scalings. The constants come from Python's float64, by the papers'
// formulas.

#include "model/rope_frequencies.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace octavo::model {
namespace {

struct Row {
  std::vector<float> cos;
  std::vector<float> sin;
};

Row FillRow(const RopeFrequencies& rope, int64_t position) {
  const auto pairs = static_cast<size_t>(rope.num_pairs());
  Row row{std::vector<float>(pairs), std::vector<float>(pairs)};
  rope.FillRow(position, row.cos.data(), row.sin.data());
  return row;
}

// The row at position 1 shows the frequencies themselves: cos(f), sin(f), times `magnitude`.
void ExpectFrequency(const RopeFrequencies& rope, size_t pair, double frequency,
                     double magnitude = 1.0) {
  const Row row = FillRow(rope, 1);
  EXPECT_NEAR(row.cos[pair], magnitude * std::cos(frequency), 1e-7 * magnitude) << "pair " << pair;
  EXPECT_NEAR(row.sin[pair], magnitude * std::sin(frequency), 1e-7 * magnitude * frequency + 1e-12)
      << "pair " << pair;
}

RopeConfig Config(RopeScaling scaling, double factor = 1.0) {
  RopeConfig config;
  config.scaling = scaling;
  config.factor = factor;
  config.original_context_length = 4096;
  return config;
}

TEST(RopeFrequenciesTest, PlainPairsTurnByPowersOfTheBase) {
  const RopeFrequencies rope(Config(RopeScaling::kNone), 64, 4096, {});

  ASSERT_EQ(rope.num_pairs(), 32);
  ExpectFrequency(rope, 0, 1.0);
  ExpectFrequency(rope, 1, 0.7498942093324559);  // 10000 ** (-2 / 64)
  ExpectFrequency(rope, 16, 0.01);               // 10000 ** (-32 / 64)
  ExpectFrequency(rope, 31, 0.0001333521432163324);
}

TEST(RopeFrequenciesTest, AFactorWithoutAScalingChangesNothing) {
  const RopeFrequencies rope(Config(RopeScaling::kNone, 4.0), 64, 4096, {});

  ExpectFrequency(rope, 16, 0.01);
}

TEST(RopeFrequenciesTest, LinearScalingDividesEveryFrequency) {
  const RopeFrequencies rope(Config(RopeScaling::kLinear, 2.5), 64, 4096, {});

  ExpectFrequency(rope, 0, 0.4);
  ExpectFrequency(rope, 16, 0.004);
  ExpectFrequency(rope, 31, 5.3340857286532955e-05);
}

TEST(RopeFrequenciesTest, YarnBlendsByTheRampOfThePaper) {
  // 128 dimensions, base 10000, 4096 tokens stretched by 4: 32 turns end at pair 20.94, one turn at
  // pair 45.03, so the ramp rises from pair 20 to pair 46.
  const RopeFrequencies rope(Config(RopeScaling::kYarn, 4.0), 128, 16384, {});
  const double magnitude = 1.138629436111989;  // 1 + 0.1 * ln 4

  ExpectFrequency(rope, 0, 1.0, magnitude);
  ExpectFrequency(rope, 20, 0.05623413251903491, magnitude);     // plain
  ExpectFrequency(rope, 21, 0.047292038501684786, magnitude);    // 1/26 of the way
  ExpectFrequency(rope, 33, 0.005412277021000409, magnitude);    // half of the way
  ExpectFrequency(rope, 45, 0.0004294025889973583, magnitude);   // 25/26 of the way
  ExpectFrequency(rope, 46, 0.000333380358040831, magnitude);    // divided by 4
  ExpectFrequency(rope, 63, 2.8869549617236455e-05, magnitude);  // divided by 4
}

TEST(RopeFrequenciesTest, YarnWithAnAttentionFactorMultipliesBoth) {
  RopeConfig config = Config(RopeScaling::kYarn, 4.0);
  config.attention_factor = 0.5;
  const Row row = FillRow(RopeFrequencies(config, 128, 16384, {}), 0);

  EXPECT_FLOAT_EQ(row.cos[0], 0.5693147180559945f);  // 0.5 * (1 + 0.1 * ln 4)
}

// A context so short that both borders of the ramp fall on pair 0: a step, and no division by zero.
TEST(RopeFrequenciesTest, YarnWithAnEmptyRampStaysFinite) {
  RopeConfig config = Config(RopeScaling::kYarn, 4.0);
  config.original_context_length = 1;
  const RopeFrequencies rope(config, 16, 64, {});

  for (size_t pair = 1; pair < 8; ++pair) {
    ExpectFrequency(rope, pair, std::pow(10000.0, -static_cast<double>(pair) / 8) / 4,
                    1.138629436111989);
  }
}

TEST(RopeFrequenciesTest, Llama3DivisorsDivideTheirOwnPair) {
  RopeFactors factors;
  factors.frequency_divisors = {1.0f, 1.0f, 2.5f, 8.0f};
  RopeConfig config = Config(RopeScaling::kNone);
  config.base = 500000.0;
  const RopeFrequencies rope(config, 8, 4096, factors);

  ExpectFrequency(rope, 0, 1.0);
  ExpectFrequency(rope, 1, 0.03760603093086394);    // 500000 ** (-1 / 4)
  ExpectFrequency(rope, 2, 0.0005656854249492381);  // 500000 ** (-1 / 2) / 2.5
  ExpectFrequency(rope, 3, 6.647869871181235e-06);  // 500000 ** (-3 / 4) / 8
}

TEST(RopeFrequenciesTest, LongRopeTakesTheLongListOnlyBeyondTheOriginalContext) {
  RopeFactors factors;
  factors.short_divisors = {1.0f, 2.0f};
  factors.long_divisors = {4.0f, 5.0f};
  const RopeConfig config = Config(RopeScaling::kLongRope);

  const RopeFrequencies at_the_border(config, 4, 4096, factors);
  ExpectFrequency(at_the_border, 0, 1.0);
  ExpectFrequency(at_the_border, 1, 0.005);
  const RopeFrequencies beyond(config, 4, 4097, factors);
  ExpectFrequency(beyond, 0, 0.25);
  ExpectFrequency(beyond, 1, 0.002);
}

TEST(RopeFrequenciesTest, LongRopeMultipliesByTheAttentionFactorAlone) {
  RopeFactors factors;
  factors.short_divisors = {1.0f, 2.0f};
  factors.long_divisors = {4.0f, 5.0f};
  RopeConfig config = Config(RopeScaling::kLongRope, 32.0);
  config.attention_factor = 1.19;
  const Row row = FillRow(RopeFrequencies(config, 4, 8192, factors), 0);

  EXPECT_EQ(row.cos, (std::vector<float>{1.19f, 1.19f}));
}

TEST(RopeFrequenciesTest, PositionZeroTurnsNothing) {
  const Row row = FillRow(RopeFrequencies(Config(RopeScaling::kNone), 64, 4096, {}), 0);

  EXPECT_EQ(row.cos, std::vector<float>(32, 1.0f));
  EXPECT_EQ(row.sin, std::vector<float>(32, 0.0f));
}

// float32 rounds to 6e-8. The angle itself, position * frequency, carries the rounding of the
// frequency: position * 1e-16.
TEST(RopeFrequenciesTest, LargePositionsFollowLongDoubleTrigonometry) {
  const RopeFrequencies rope(Config(RopeScaling::kNone), 64, 1 << 20, {});
  for (int64_t position : {1, 255, 4095, 131071, 1000003, 1 << 20}) {
    const Row row = FillRow(rope, position);
    const double bound = 6e-8 + static_cast<double>(position) * 3e-16;
    for (size_t pair = 0; pair < row.cos.size(); ++pair) {
      const long double frequency = std::pow(10000.0L, -static_cast<long double>(pair) / 32.0L);
      const long double angle = static_cast<long double>(position) * frequency;
      EXPECT_NEAR(row.cos[pair], static_cast<double>(std::cos(angle)), bound)
          << "position " << position << ", pair " << pair;
      EXPECT_NEAR(row.sin[pair], static_cast<double>(std::sin(angle)), bound)
          << "position " << position << ", pair " << pair;
    }
  }
}

TEST(RopeFrequenciesTest, ARowIsTheSameWheneverItIsFilled) {
  const RopeFrequencies rope(Config(RopeScaling::kYarn, 4.0), 128, 16384, {});
  const Row first = FillRow(rope, 9001);
  for (int64_t position = 0; position < 50; ++position) FillRow(rope, position);

  const Row again = FillRow(rope, 9001);
  EXPECT_EQ(first.cos, again.cos);
  EXPECT_EQ(first.sin, again.sin);
}

}  // namespace
}  // namespace octavo::model
