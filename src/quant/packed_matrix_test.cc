#include "quant/packed_matrix.h"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "quant/decode.h"
#include "quant/packed_format.h"
#include "quant/random_matrix.h"
#include "quant/unpack.h"

namespace octavo::quant {
namespace {

using tensor::DType;

int64_t BlockOf(DType dtype) { return tensor::Traits(dtype).block_elements; }

uint32_t Bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

// Equal bits, or both NaN.
bool Same(float a, float b) { return Bits(a) == Bits(b) || (std::isnan(a) && std::isnan(b)); }

class PackedMatrixTest : public testing::TestWithParam<DType> {};

INSTANTIATE_TEST_SUITE_P(Formats, PackedMatrixTest, testing::ValuesIn(kAllFormats),
                         [](const testing::TestParamInfo<DType>& format) {
                           return std::string(tensor::Traits(format.param).name);
                         });

TEST_P(PackedMatrixTest, DecodesToTheSameValuesAsTheStoredRows) {
  const DType dtype = GetParam();
  const uint32_t seed = 20240117;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  for (const WeightKind kind : {WeightKind::kUsual, WeightKind::kAnyBits, WeightKind::kExtremes}) {
    const MatrixShape shape = {37, 3 * BlockOf(dtype)};
    const RandomMatrix matrix(dtype, shape, kind, seed);
    std::vector<float> expected(static_cast<size_t>(shape.num_inputs));
    std::vector<float> actual(expected.size());
    for (int64_t o = 0; o < shape.num_outputs; ++o) {
      DecodeRow(dtype, matrix.stored_row(o), expected.size(), expected.data());

      UnpackRow(matrix.view(), o, 0, shape.num_inputs, actual.data());

      for (size_t k = 0; k < expected.size(); ++k) {
        ASSERT_TRUE(Same(expected[k], actual[k]))
            << "output " << o << ", input " << k << ": " << expected[k] << " " << actual[k];
      }
    }
  }
}

TEST_P(PackedMatrixTest, PadsTheLastPanelWithZeroBytes) {
  const DType dtype = GetParam();
  const RandomMatrix matrix(dtype, {17, BlockOf(dtype)}, WeightKind::kAnyBits, 3);

  std::vector<float> values(static_cast<size_t>(BlockOf(dtype)));
  for (int64_t o = 17; o < 32; ++o) {
    UnpackRow(matrix.view(), o, 0, BlockOf(dtype), values.data());
    for (const float value : values) EXPECT_EQ(value, 0.0f);
  }
}

TEST_P(PackedMatrixTest, PanelsArePackedAloneAsInOneCall) {
  const DType dtype = GetParam();
  const int64_t num_inputs = 2 * BlockOf(dtype);
  const RandomMatrix matrix(dtype, {48, num_inputs}, WeightKind::kAnyBits, 4);
  const size_t panel_bytes = matrix.view().panel_bytes;
  std::vector<std::byte> packed(3 * panel_bytes, std::byte{0xee});

  PackPanels(dtype, 48, num_inputs, matrix.stored_row(0), packed.data(), 1, 2);

  EXPECT_EQ(std::memcmp(packed.data() + panel_bytes, matrix.view().data + panel_bytes, panel_bytes),
            0);
  for (size_t i = 0; i < panel_bytes; ++i) {
    ASSERT_EQ(packed[i], std::byte{0xee});
    ASSERT_EQ(packed[2 * panel_bytes + i], std::byte{0xee});
  }
}

TEST_P(PackedMatrixTest, PanelBytesAreWholeCacheLines) {
  for (int64_t blocks = 1; blocks < 8; ++blocks) {
    EXPECT_EQ(PackedPanelBytes(GetParam(), blocks * BlockOf(GetParam())) % 64, 0u);
  }
}

TEST(PackedPanelBytesTest, TheFormatsOfTheDefaultModelTakeTheirFileSize) {
  // 18 groups of 32 inputs x 16 outputs: 20 and 34 bytes per group and output.
  EXPECT_EQ(PackedPanelBytes(DType::kQ4_1, 576), 18u * 16 * 20);
  EXPECT_EQ(PackedPanelBytes(DType::kQ8_0, 576), 18u * 16 * 34);
  EXPECT_EQ(PackedPanelBytes(DType::kQ4_0, 576), 18u * 16 * 18);
}

TEST(PackedPanelBytesTest, CodesOfFiveAndSixBitsTakeNoBytesOfTheirOwn) {
  // Q5: 22 and 24 bytes per group and output, as in their files; Q6_K: 210 per superblock.
  EXPECT_EQ(PackedPanelBytes(DType::kQ5_0, 576), 18u * 16 * 22);
  EXPECT_EQ(PackedPanelBytes(DType::kQ5_1, 576), 18u * 16 * 24);
  EXPECT_EQ(PackedPanelBytes(DType::kQ6_K, 512), 2u * 16 * 210);
}

}  // namespace
}  // namespace octavo::quant
