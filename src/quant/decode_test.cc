#include "quant/decode.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace octavo::quant {
namespace {

using tensor::DType;

std::vector<std::byte> FromHex(const std::string& hex) {
  std::vector<std::byte> bytes(hex.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(std::stoul(hex.substr(2 * i, 2), nullptr, 16));
  }
  return bytes;
}

struct GoldenBlock {
  std::vector<std::byte> stored;
  std::vector<float> values;
};

// Blocks that the `gguf` package decoded; see tests/tools/make_quant_golden.py.
std::vector<GoldenBlock> ReadGolden(DType dtype) {
  const std::string path = std::string(OCTAVO_SOURCE_DIR) + "/tests/golden/quant/" +
                           std::string(tensor::Traits(dtype).name) + ".txt";
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << path;
  std::vector<GoldenBlock> blocks;
  std::string stored;
  std::string values;
  while (file >> stored >> values) {
    GoldenBlock block;
    block.stored = FromHex(stored);
    for (size_t i = 0; i < values.size(); i += 8) {
      const std::vector<std::byte> bits = FromHex(values.substr(i, 8));
      uint32_t word = 0;
      for (int k = 0; k < 4; ++k) word |= std::to_integer<uint32_t>(bits[k]) << (8 * k);
      block.values.push_back(std::bit_cast<float>(word));
    }
    blocks.push_back(block);
  }
  return blocks;
}

// Equal bits, or both a NaN.
::testing::AssertionResult SameValue(float expected, float actual) {
  if (std::bit_cast<uint32_t>(expected) == std::bit_cast<uint32_t>(actual) ||
      (std::isnan(expected) && std::isnan(actual))) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "expected " << expected << ", got " << actual;
}

class DecodeGoldenTest : public ::testing::TestWithParam<DType> {};

TEST_P(DecodeGoldenTest, EveryValueEqualsTheGgufPackages) {
  const std::vector<GoldenBlock> blocks = ReadGolden(GetParam());
  ASSERT_GE(blocks.size(), 4u);
  for (size_t b = 0; b < blocks.size(); ++b) {
    const GoldenBlock& block = blocks[b];
    ASSERT_EQ(block.stored.size(), tensor::StoredBytes(GetParam(), block.values.size()));
    std::vector<float> decoded(block.values.size());

    DecodeRow(GetParam(), block.stored.data(), decoded.size(), decoded.data());

    for (size_t i = 0; i < decoded.size(); ++i) {
      ASSERT_TRUE(SameValue(block.values[i], decoded[i])) << "block " << b << " element " << i;
    }
  }
}

// A row at an odd address whose bytes end with the buffer: sanitizers see a wrong stride or a read
// beyond the row.
TEST_P(DecodeGoldenTest, ARowOfSeveralBlocksDecodesAsItsBlocksAtAnyAddress) {
  const std::vector<GoldenBlock> blocks = ReadGolden(GetParam());
  std::vector<std::byte> row(1);
  std::vector<float> expected;
  for (const GoldenBlock& block : blocks) {
    row.insert(row.end(), block.stored.begin(), block.stored.end());
    expected.insert(expected.end(), block.values.begin(), block.values.end());
  }
  row.shrink_to_fit();
  std::vector<float> decoded(expected.size() + 1, 123.0f);

  DecodeRow(GetParam(), row.data() + 1, expected.size(), decoded.data());

  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_TRUE(SameValue(expected[i], decoded[i])) << "element " << i;
  }
  EXPECT_EQ(decoded.back(), 123.0f);
}

TEST_P(DecodeGoldenTest, AnEmptyRowWritesNothing) {
  float untouched = 7.0f;

  DecodeRow(GetParam(), nullptr, 0, &untouched);

  EXPECT_EQ(untouched, 7.0f);
}

INSTANTIATE_TEST_SUITE_P(EveryFormat, DecodeGoldenTest,
                         ::testing::Values(DType::kF32, DType::kF16, DType::kBF16, DType::kQ4_0,
                                           DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0,
                                           DType::kQ2_K, DType::kQ3_K, DType::kQ4_K, DType::kQ5_K,
                                           DType::kQ6_K, DType::kIQ4_NL),
                         [](const auto& param) {
                           return std::string(tensor::Traits(param.param).name);
                         });

// Hand-worked: scale 0.5 (0x3800), minimum -2 (0xc000), codes 0 .. 15 in the low halves and 15 .. 0
// in the high ones.
TEST(DecodeTest, Q41ByHand) {
  std::vector<std::byte> block = FromHex("003800c0f0e1d2c3b4a5968778695a4b3c2d1e0f");
  std::vector<float> decoded(32);

  DecodeRow(DType::kQ4_1, block.data(), 32, decoded.data());

  for (int j = 0; j < 16; ++j) {
    EXPECT_EQ(decoded[j], 0.5f * static_cast<float>(j) - 2.0f) << j;
    EXPECT_EQ(decoded[j + 16], 0.5f * static_cast<float>(15 - j) - 2.0f) << j;
  }
}

TEST(DecodeDeathTest, APartOfABlockIsABug) {
  const std::vector<std::byte> block(18);
  std::vector<float> decoded(32);

  EXPECT_DEATH(DecodeRow(DType::kQ4_0, block.data(), 31, decoded.data()), "whole number of blocks");
}

}  // namespace
}  // namespace octavo::quant
