#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <set>

namespace octavo::tensor {
namespace {

TEST(DTypeTest, EveryFormatHasTheIdAndBlockOfTheGgufFormat) {
  struct Expected {
    uint32_t id;
    const char* name;
    uint32_t block_elements;
    uint32_t block_bytes;
  };
  const Expected formats[] = {
      {0, "F32", 1, 4},       {1, "F16", 1, 2},       {2, "Q4_0", 32, 18},
      {3, "Q4_1", 32, 20},    {6, "Q5_0", 32, 22},    {7, "Q5_1", 32, 24},
      {8, "Q8_0", 32, 34},    {10, "Q2_K", 256, 84},  {11, "Q3_K", 256, 110},
      {12, "Q4_K", 256, 144}, {13, "Q5_K", 256, 176}, {14, "Q6_K", 256, 210},
      {20, "IQ4_NL", 32, 18}, {30, "BF16", 1, 2},
  };
  std::set<uint32_t> known;
  for (const Expected& format : formats) {
    const std::optional<DType> dtype = DTypeFromId(format.id);
    ASSERT_TRUE(dtype.has_value()) << format.name;
    EXPECT_EQ(Traits(*dtype).name, format.name);
    EXPECT_EQ(Traits(*dtype).block_elements, format.block_elements) << format.name;
    EXPECT_EQ(Traits(*dtype).block_bytes, format.block_bytes) << format.name;
    known.insert(format.id);
  }

  for (uint32_t id = 0; id < 300; ++id) {
    EXPECT_EQ(DTypeFromId(id).has_value(), known.count(id) == 1) << id;
  }
}

TEST(DTypeTest, StoredBytesCountsWholeBlocks) {
  EXPECT_EQ(StoredBytes(DType::kQ4_1, 0), 0u);
  EXPECT_EQ(StoredBytes(DType::kQ4_1, 576), 360u);
  EXPECT_EQ(StoredBytes(DType::kQ6_K, 512), 420u);
  EXPECT_EQ(StoredBytes(DType::kBF16, 3), 6u);
}

}  // namespace
}  // namespace octavo::tensor
