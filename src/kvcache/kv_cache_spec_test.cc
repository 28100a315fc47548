#include "octavo/kvcache/kv_cache_spec.h"

#include <gtest/gtest.h>

#include <limits>
#include <ostream>

namespace octavo::kvcache {
namespace {

struct KnownModel {
  const char* name;
  int32_t num_layers, num_kv_heads, head_dim;
  int64_t float16_bytes_per_token;
};

void PrintTo(const KnownModel& model, std::ostream* out) { *out << model.name; }

// Geometries from the models' own configurations; bytes per token as published for them.
constexpr KnownModel kModels[] = {
    {"Llama-2-7B", 32, 32, 128, 524288},     {"Llama-3-8B", 32, 8, 128, 131072},
    {"Llama-3-70B", 80, 8, 128, 327680},     {"Mistral-7B", 32, 8, 128, 131072},
    {"Qwen2.5-7B", 28, 4, 128, 57344},       {"Qwen3-0.6B", 28, 8, 128, 114688},
    {"Qwen3-8B", 36, 8, 128, 147456},        {"Qwen3-32B", 64, 8, 128, 262144},
    {"Qwen3-235B-A22B", 94, 4, 128, 192512}, {"SmolLM2-135M", 30, 3, 64, 23040},
};

class KnownModelTest : public testing::TestWithParam<KnownModel> {};

TEST_P(KnownModelTest, Float16BytesPerTokenAndPerBlockAreTheKnownOnes) {
  const KnownModel& model = GetParam();
  KvCacheSpec spec{model.num_layers, model.num_kv_heads, model.head_dim, 2, 16};

  EXPECT_TRUE(spec.Validate().ok());
  EXPECT_EQ(spec.BytesPerToken(), model.float16_bytes_per_token);
  EXPECT_EQ(spec.BytesPerBlock(), 16 * model.float16_bytes_per_token);

  spec.bytes_per_element = 4;
  EXPECT_EQ(spec.BytesPerToken(), 2 * model.float16_bytes_per_token);
}

INSTANTIATE_TEST_SUITE_P(KvCacheSpec, KnownModelTest, testing::ValuesIn(kModels));

TEST(KvCacheSpecTest, ScalesAddTheirBytesAndOnlyBlocksOf8TokensArePadded) {
  KvCacheSpec spec{30, 3, 64, 1, 16, 2};  // SmolLM2-135M in INT8

  for (const int32_t block_size : {16, 32, 64, 128, 256}) {
    spec.block_size_tokens = block_size;
    EXPECT_EQ(spec.BytesPerToken(), 11880) << block_size;  // 2 x 30 x 3 x (64 + 2)
    EXPECT_EQ(spec.BytesPerBlock(), block_size * 11880);
  }
  spec.block_size_tokens = 8;  // 2 x 8 x 66 = 1,056 bytes a head, padded to 1,088
  EXPECT_EQ(spec.HeadBytesPerBlock(), 1088);
  EXPECT_EQ(spec.BytesPerBlock(), 30 * 3 * 1088);
  EXPECT_EQ(spec.BytesPerToken(), 12240);
}

TEST(KvCacheSpecTest, Llama3At128KTokensTakes16GiB) {
  const KvCacheSpec spec{32, 8, 128, 2, 16};

  EXPECT_EQ(spec.NumBlocksForTokens(131072) * *spec.BytesPerBlock(), int64_t{16} << 30);
}

TEST(KvCacheSpecTest, TokensAreRoundedUpToBlocksAndBytesDown) {
  const KvCacheSpec spec{30, 3, 64, 2, 16};  // 368,640 bytes per block

  EXPECT_EQ(spec.NumBlocksForTokens(0), 0);
  EXPECT_EQ(spec.NumBlocksForTokens(1), 1);
  EXPECT_EQ(spec.NumBlocksForTokens(16), 1);
  EXPECT_EQ(spec.NumBlocksForTokens(17), 2);
  EXPECT_EQ(spec.NumBlocksForBytes(368639), 0);
  EXPECT_EQ(spec.NumBlocksForBytes(368640), 1);
  EXPECT_EQ(spec.NumBlocksForBytes(737279), 1);
}

TEST(KvCacheSpecTest, BlockSizesArePowersOfTwoFrom8To256) {
  for (int32_t size = -16; size <= 1024; ++size) {
    const bool expected =
        size == 8 || size == 16 || size == 32 || size == 64 || size == 128 || size == 256;
    EXPECT_EQ(IsBlockSize(size), expected) << size;
  }
  EXPECT_FALSE(IsBlockSize(std::numeric_limits<int32_t>::min()));
}

TEST(KvCacheSpecTest, AnErrorNamesTheFieldAndItsValue) {
  const auto message = [](const KvCacheSpec& spec) { return spec.Validate().message(); };

  EXPECT_EQ(message({0, 3, 64, 2, 16}), "KV cache: num_layers is 0, at least 1 is needed");
  EXPECT_EQ(message({30, -3, 64, 2, 16}), "KV cache: num_kv_heads is -3, at least 1 is needed");
  EXPECT_EQ(message({30, 3, 0, 2, 16}), "KV cache: head_dim is 0, at least 1 is needed");
  EXPECT_EQ(message({30, 3, 64, 0, 16}), "KV cache: bytes_per_element is 0, at least 1 is needed");
  EXPECT_EQ(message({30, 3, 64, 1, 16, -2}), "KV cache: scale_bytes is -2, at least 0 is needed");
  EXPECT_EQ(message({30, 3, 64, 2, 24}),
            "KV cache: block size is 24 tokens, possible are 8, 16, 32, 64, 128 and 256");
}

TEST(KvCacheSpecTest, SizesThatOverflowAreAbsentAndInvalid) {
  constexpr int32_t kHuge = std::numeric_limits<int32_t>::max();
  const KvCacheSpec spec{kHuge, kHuge, kHuge, 4, 16};

  EXPECT_EQ(spec.BytesPerToken(), std::nullopt);
  EXPECT_EQ(spec.BytesPerBlock(), std::nullopt);
  EXPECT_EQ(spec.NumBlocksForBytes(1), std::nullopt);
  EXPECT_FALSE(spec.Validate().ok());
}

}  // namespace
}  // namespace octavo::kvcache
