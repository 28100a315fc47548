#include "kvstore/kv_layout.h"

#include <gtest/gtest.h>

#include <string>

namespace octavo::kvstore {
namespace {

using kernels::KvDtype;
using kvcache::KvCacheSpec;

// 30 layers, 3 kv heads, head_dim 64: SmolLM2-135M.
KvCacheSpec SmolLm2(int32_t block_size_tokens) {
  return {
      .num_layers = 30, .num_kv_heads = 3, .head_dim = 64, .block_size_tokens = block_size_tokens};
}

TEST(KvLayoutTest, PlacesSmolLm2InBlocksOf16AsWorkedOutByHand) {
  const auto layout = KvLayout::Create(SmolLm2(16), KvDtype::kFloat16, 100);

  ASSERT_TRUE(layout.ok()) << layout.status().message();
  EXPECT_EQ(layout->spec.bytes_per_element, 2);
  EXPECT_EQ(layout->v_offset_bytes, 2048u);        // 16 tokens x 64 x 2
  EXPECT_EQ(layout->head_stride_bytes, 4096u);     // K and V
  EXPECT_EQ(layout->layer_stride_bytes, 12288u);   // 3 heads
  EXPECT_EQ(layout->block_stride_bytes, 368640u);  // 30 layers = 16 x 23,040
  EXPECT_EQ(layout->arena_bytes, 36864000u);       // 100 blocks
  EXPECT_EQ(layout->KeyOffset(2, 7, 1), 7 * 368640u + 2 * 12288u + 4096u);
}

TEST(KvLayoutTest, PlacesSmolLm2InInt8AsWorkedOutByHand) {
  const auto layout = KvLayout::Create(SmolLm2(16), KvDtype::kInt8, 100);

  ASSERT_TRUE(layout.ok()) << layout.status().message();
  EXPECT_EQ(layout->v_offset_bytes, 1024u);      // 16 tokens x 64
  EXPECT_EQ(layout->head_stride_bytes, 2112u);   // K, V and 2 x 16 FP16 scales
  EXPECT_EQ(layout->layer_stride_bytes, 6336u);  // 3 heads
  EXPECT_EQ(layout->arena_bytes, 19008000u);     // 30 layers = 100 x 16 x 11,880

  const auto small = KvLayout::Create(SmolLm2(8), KvDtype::kInt8, 100);
  EXPECT_EQ(small->v_offset_bytes, 512u);
  EXPECT_EQ(small->head_stride_bytes, 1088u);  // 1,056 and 32 of padding
}

class EveryShapeTest : public testing::TestWithParam<KvDtype> {};

TEST_P(EveryShapeTest, PartsAreAlignedAndAddUpToTheSpecsBytes) {
  for (const int32_t block_size : {8, 16, 32, 64, 128, 256}) {
    for (const int32_t head_dim : {8, 64, 80, 96, 128, 256}) {
      KvCacheSpec spec = SmolLm2(block_size);
      spec.head_dim = head_dim;

      const auto layout = KvLayout::Create(spec, GetParam(), 5);

      ASSERT_TRUE(layout.ok()) << layout.status().message();
      EXPECT_EQ(layout->v_offset_bytes % 64, 0u);
      EXPECT_EQ(layout->head_stride_bytes % 64, 0u);
      EXPECT_EQ(layout->block_stride_bytes % 64, 0u);
      EXPECT_EQ(layout->layer_stride_bytes % 64, 0u);
      EXPECT_EQ(layout->block_stride_bytes, 30 * layout->layer_stride_bytes);
      const bool has_scales = GetParam() == KvDtype::kInt8;
      EXPECT_GE(
          layout->head_stride_bytes,
          2 * layout->v_offset_bytes + (has_scales ? 4 * static_cast<size_t>(block_size) : 0));
      EXPECT_EQ(static_cast<int64_t>(layout->arena_bytes), 5 * *layout->spec.BytesPerBlock());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(KvLayout, EveryShapeTest,
                         testing::Values(KvDtype::kFloat32, KvDtype::kFloat16, KvDtype::kBFloat16,
                                         KvDtype::kInt8),
                         [](const auto& test) { return std::string(KvDtypeName(test.param)); });

TEST(KvLayoutTest, AnElementOf4BytesDoublesTheArena) {
  EXPECT_EQ(KvLayout::Create(SmolLm2(16), KvDtype::kFloat32, 100)->arena_bytes,
            2 * KvLayout::Create(SmolLm2(16), KvDtype::kBFloat16, 100)->arena_bytes);
}

TEST(KvLayoutTest, AnErrorNamesTheFigureAndItsLimit) {
  const auto message = [](const KvCacheSpec& spec, int64_t num_blocks) {
    return KvLayout::Create(spec, KvDtype::kFloat16, num_blocks).status().message();
  };
  KvCacheSpec odd = SmolLm2(16);
  odd.head_dim = 60;
  KvCacheSpec large = SmolLm2(16);
  large.head_dim = 264;

  EXPECT_EQ(message(odd, 1), "KV cache: head_dim is 60, supported are multiples of 8 up to 256");
  EXPECT_EQ(message(large, 1), "KV cache: head_dim is 264, supported are multiples of 8 up to 256");
  EXPECT_EQ(message(SmolLm2(16), 0), "KV cache: 0 blocks, possible are 1 to 2147483646");
  EXPECT_EQ(message(SmolLm2(16), 4294967295),
            "KV cache: 4294967295 blocks, possible are 1 to 2147483646");
  EXPECT_EQ(message(SmolLm2(20), 1),
            "KV cache: block size is 20 tokens, possible are 8, 16, 32, 64, 128 and 256");
}

TEST(KvLayoutTest, AnArenaBeyond63BitsIsRefused) {
  KvCacheSpec spec = SmolLm2(256);
  spec.num_layers = 1 << 20;
  spec.num_kv_heads = 1 << 10;

  const auto layout = KvLayout::Create(spec, KvDtype::kFloat32, 1 << 20);

  ASSERT_FALSE(layout.ok());
  EXPECT_EQ(layout.status().code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace octavo::kvstore
