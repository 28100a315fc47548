// What an engine plans to hold, and when it refuses to start.

#include "engine/memory_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <string>

#include "model/workspace.h"

namespace octavo::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// 2 layers x 2 (K and V) x 2 KV heads x 64 x 2 bytes
constexpr int64_t kBytesPerToken = 1024;
constexpr int64_t kBytesPerBlock = 16 * kBytesPerToken;

PlanInputs Inputs(int64_t memory_bytes) {
  PlanInputs inputs;
  inputs.config.num_layers = 2;
  inputs.config.hidden_dim = 256;
  inputs.config.ffn_dim = 512;
  inputs.config.num_heads = 4;
  inputs.config.num_kv_heads = 2;
  inputs.config.head_dim = 64;
  inputs.config.rot_dim = 64;
  inputs.config.vocab_size = 1000;
  inputs.config.context_length = 512;
  inputs.weight_bytes = 3000000;
  inputs.tokenizer_bytes = 50000;
  inputs.memory_bytes = memory_bytes;
  inputs.max_rows = 64;
  inputs.num_threads = 2;
  return inputs;
}

CacheOptions WholeMemory() {
  CacheOptions options;
  options.gpu_memory_utilization = 1.0;
  return options;
}

// Everything but K and V.
int64_t FixedBytes(const PlanInputs& inputs, int32_t max_model_len) {
  return inputs.weight_bytes + inputs.tokenizer_bytes + 16 * 1000 * 4 +
         model::Workspace::PlannedBytes(inputs.config, {64, 64, max_model_len, 2});
}

// Room for exactly `num_blocks` blocks beside the rest.
PlanInputs InputsWithRoomFor(int64_t num_blocks, int32_t max_model_len) {
  PlanInputs inputs = Inputs(0);
  inputs.memory_bytes = FixedBytes(inputs, max_model_len) + num_blocks * kBytesPerBlock;
  return inputs;
}

EnginePlan MustPlan(const PlanInputs& inputs, const ModelOptions& model,
                    const CacheOptions& cache) {
  const Result<EnginePlan> plan = PlanMemory(inputs, model, cache);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  if (!plan.ok()) return {};
  EXPECT_LE(plan->memory.planned.total(), plan->memory.limit_bytes);
  EXPECT_GE(plan->memory.kv_capacity_tokens, plan->max_model_len);
  return *plan;
}

std::string Refusal(const PlanInputs& inputs, const ModelOptions& model,
                    const CacheOptions& cache) {
  const Result<EnginePlan> plan = PlanMemory(inputs, model, cache);
  EXPECT_FALSE(plan.ok());
  if (plan.ok()) return "";
  EXPECT_EQ(plan.status().code(), StatusCode::kResourceExhausted);
  return plan.status().message();
}

ModelOptions MaxModelLen(int32_t tokens) {
  ModelOptions options;
  options.max_model_len = tokens;
  return options;
}

TEST(MemoryPlannerTest, AModelThatFitsGetsRoomForSixteenWholeContexts) {
  const PlanInputs inputs = Inputs(int64_t{1} << 30);
  const EnginePlan plan = MustPlan(inputs, {}, WholeMemory());

  EXPECT_EQ(plan.max_model_len, 512);
  EXPECT_EQ(plan.memory.kv_bytes_per_token, kBytesPerToken);
  EXPECT_EQ(plan.memory.kv_block_size_tokens, 16);
  EXPECT_EQ(plan.memory.kv_num_blocks, 16 * 32);
  EXPECT_EQ(plan.memory.kv_capacity_tokens, 16 * 512);
  EXPECT_EQ(plan.memory.limit_bytes, int64_t{1} << 30);
  EXPECT_EQ(plan.memory.planned[MemoryTag::kKvCache], 16 * 512 * kBytesPerToken);
  EXPECT_EQ(plan.memory.planned[MemoryTag::kWeights], 3000000);
  EXPECT_EQ(plan.memory.planned[MemoryTag::kTokenizer], 50000);
  EXPECT_EQ(plan.memory.planned[MemoryTag::kScratch], 16 * 1000 * 4);
  EXPECT_EQ(plan.memory.planned.total(), FixedBytes(inputs, 512) + 16 * 512 * kBytesPerToken);
  EXPECT_EQ(plan.layout.num_blocks, 16 * 32);
  EXPECT_EQ(static_cast<int64_t>(plan.layout.arena_bytes), 16 * 512 * kBytesPerToken);
}

TEST(MemoryPlannerTest, TheSwapSpaceIsPlannedAndTakenFromThePool) {
  const PlanInputs inputs = Inputs(FixedBytes(Inputs(0), 512) + 600 * kBytesPerToken);
  CacheOptions cache = WholeMemory();
  cache.swap_space_bytes = 80 * kBytesPerToken + 1;  // 5 blocks of 16 tokens
  const EnginePlan plan = MustPlan(inputs, {}, cache);

  EXPECT_EQ(plan.swap_layout.num_blocks, 5);
  EXPECT_EQ(plan.layout.num_blocks, 32);
  EXPECT_EQ(plan.memory.planned[MemoryTag::kKvCache], (512 + 80) * kBytesPerToken);

  cache.swap_space_bytes = 96 * kBytesPerToken;
  EXPECT_FALSE(PlanMemory(inputs, MaxModelLen(512), cache).ok());
  cache.swap_space_bytes = INT64_MAX;
  cache.gpu_memory_utilization = 0.001;
  const Result<EnginePlan> refused = PlanMemory(inputs, MaxModelLen(512), cache);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(), testing::HasSubstr("swap space is 9223372036854775807"));
}

TEST(MemoryPlannerTest, MoreThanTheModelsContextIsRefused) {
  const Result<EnginePlan> plan =
      PlanMemory(Inputs(int64_t{1} << 30), MaxModelLen(513), WholeMemory());

  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(plan.status().message(), "max_model_len is 513, but the model's context is 512 tokens");
}

TEST(MemoryPlannerTest, AContextThatIsNoMultipleOfTheBlockIsRoundedUp) {
  const EnginePlan plan = MustPlan(Inputs(int64_t{1} << 30), MaxModelLen(33), WholeMemory());

  EXPECT_EQ(plan.max_model_len, 33);
  EXPECT_EQ(plan.memory.kv_num_blocks, 16 * 3);
}

TEST(MemoryPlannerTest, TheKvFormatSetsTheBytesOfAToken) {
  CacheOptions cache = WholeMemory();
  cache.dtype = KvCacheDtype::kFloat32;
  EXPECT_EQ(MustPlan(Inputs(int64_t{1} << 30), {}, cache).memory.kv_bytes_per_token, 2048);
  for (KvCacheDtype dtype :
       {KvCacheDtype::kAuto, KvCacheDtype::kFloat16, KvCacheDtype::kBFloat16}) {
    cache.dtype = dtype;
    EXPECT_EQ(MustPlan(Inputs(int64_t{1} << 30), {}, cache).memory.kv_bytes_per_token, 1024);
  }
}

TEST(MemoryPlannerTest, Int8CountsItsScalesAndThePaddingOfBlocksOf8) {
  CacheOptions cache = WholeMemory();
  cache.dtype = KvCacheDtype::kInt8;
  for (const auto& [block_size, bytes] : {std::pair{16, 528}, {8, 544}, {256, 528}}) {
    cache.block_size = block_size;
    const EnginePlan plan = MustPlan(Inputs(int64_t{1} << 30), {}, cache);
    // 2 layers x 2 x 2 KV heads x (64 + 2); blocks of 8 have 4 more bytes per token and head pair
    EXPECT_EQ(plan.memory.kv_bytes_per_token, bytes) << block_size;
    EXPECT_EQ(plan.memory.planned[MemoryTag::kKvCache], plan.memory.kv_capacity_tokens * bytes);
  }
}

TEST(MemoryPlannerTest, ARefusalInInt8ShowsScalesAndPadding) {
  CacheOptions cache;
  cache.dtype = KvCacheDtype::kInt8;
  cache.kv_cache_memory_bytes = 1000;
  const auto message = [&cache] {
    return PlanMemory(Inputs(int64_t{1} << 30), MaxModelLen(512), cache).status().message();
  };
  EXPECT_THAT(message(), HasSubstr("need 270336 bytes (2 x 2 layers x 2 KV heads x (64 x 1 + 2) "
                                   "bytes a token, in blocks of 16)"));
  cache.block_size = 8;
  EXPECT_THAT(message(), HasSubstr("need 278528 bytes (2 x 2 layers x 2 KV heads x (64 x 1 + 2) "
                                   "bytes a token and 16 of padding, in blocks of 8)"));
}

TEST(MemoryPlannerTest, WithoutMaxModelLenTheContextShrinksToWhatFits) {
  const EnginePlan plan = MustPlan(InputsWithRoomFor(10, 160), {}, WholeMemory());

  EXPECT_EQ(plan.max_model_len, 160);
  EXPECT_EQ(plan.memory.kv_num_blocks, 10);
  EXPECT_EQ(plan.memory.planned.total(), plan.memory.limit_bytes);
}

TEST(MemoryPlannerTest, OneByteTooFewCostsAWholeBlock) {
  PlanInputs inputs = InputsWithRoomFor(10, 160);
  inputs.memory_bytes -= 1;
  EXPECT_EQ(MustPlan(inputs, {}, WholeMemory()).max_model_len, 144);
}

TEST(MemoryPlannerTest, AGivenMaxModelLenThatFitsExactlyIsAccepted) {
  EXPECT_EQ(MustPlan(InputsWithRoomFor(10, 160), MaxModelLen(160), WholeMemory()).max_model_len,
            160);
}

TEST(MemoryPlannerTest, AGivenMaxModelLenIsNeverShrunkButRefusedWithTheFigures) {
  const PlanInputs inputs = InputsWithRoomFor(10, 160);
  const std::string message = Refusal(inputs, MaxModelLen(161), WholeMemory());

  EXPECT_THAT(message, AllOf(HasSubstr("161 tokens need 180224 bytes"),  // 11 blocks
                             HasSubstr("2 x 2 layers x 2 KV heads x 64 x 2 bytes a token"),
                             HasSubstr(std::to_string(FixedBytes(inputs, 161)) + " bytes"),
                             HasSubstr(std::to_string(inputs.memory_bytes) + " bytes"),
                             HasSubstr("longest max_model_len that fits is 160")));
}

TEST(MemoryPlannerTest, WeightsAloneThatExceedTheLimitAreRefused) {
  const std::string message = Refusal(Inputs(1000000), {}, WholeMemory());

  EXPECT_THAT(message, AllOf(HasSubstr("the memory limit is 1000000 bytes"),
                             HasSubstr("longest max_model_len that fits is 0")));
}

TEST(MemoryPlannerTest, AnUnknownMemorySizeIsRefusedRatherThanTrusted) {
  EXPECT_THAT(Refusal(Inputs(0), {}, WholeMemory()), HasSubstr("the memory limit is 0 bytes"));
}

TEST(MemoryPlannerTest, OnlyTheGivenShareOfTheMemoryIsUsed) {
  PlanInputs inputs = InputsWithRoomFor(10, 160);
  inputs.memory_bytes *= 2;
  CacheOptions half = WholeMemory();
  half.gpu_memory_utilization = 0.5;

  EXPECT_EQ(MustPlan(inputs, {}, half).max_model_len, 160);
  EXPECT_EQ(MustPlan(inputs, {}, WholeMemory()).max_model_len, 512);
}

TEST(MemoryPlannerTest, AGivenCacheSizeIsCutDownToWholeBlocks) {
  CacheOptions cache = WholeMemory();
  cache.kv_cache_memory_bytes = 5 * kBytesPerBlock / 2;
  const EnginePlan plan = MustPlan(Inputs(int64_t{1} << 30), {}, cache);

  EXPECT_EQ(plan.memory.kv_num_blocks, 2);
  EXPECT_EQ(plan.max_model_len, 32);
}

TEST(MemoryPlannerTest, AGivenCacheSizeMayHoldMoreThanOneContext) {
  CacheOptions cache = WholeMemory();
  cache.kv_cache_memory_bytes = 100 * kBytesPerBlock;
  const EnginePlan plan = MustPlan(Inputs(int64_t{1} << 30), {}, cache);

  EXPECT_EQ(plan.max_model_len, 512);
  EXPECT_EQ(plan.memory.kv_num_blocks, 100);
  EXPECT_EQ(plan.memory.kv_capacity_tokens, 1600);
  EXPECT_EQ(plan.memory.planned[MemoryTag::kKvCache], 100 * kBytesPerBlock);
}

TEST(MemoryPlannerTest, ACacheSizeBelowOneBlockIsRefused) {
  CacheOptions cache = WholeMemory();
  cache.kv_cache_memory_bytes = kBytesPerBlock - 1;
  EXPECT_THAT(Refusal(Inputs(int64_t{1} << 30), {}, cache),
              AllOf(HasSubstr("kv_cache_memory_bytes is 16383"),
                    HasSubstr("longest max_model_len that fits is 0 (a block takes 16384 bytes)")));
  cache.kv_cache_memory_bytes = kBytesPerBlock;
  EXPECT_EQ(MustPlan(Inputs(int64_t{1} << 30), {}, cache).max_model_len, 16);
}

TEST(MemoryPlannerTest, ACacheSizeTooSmallForTheGivenMaxModelLenIsRefused) {
  CacheOptions cache = WholeMemory();
  cache.kv_cache_memory_bytes = 2 * kBytesPerBlock;
  EXPECT_THAT(
      Refusal(Inputs(int64_t{1} << 30), MaxModelLen(33), cache),
      AllOf(HasSubstr("33 tokens need 49152 bytes"), HasSubstr("kv_cache_memory_bytes is 32768"),
            HasSubstr("longest max_model_len that fits is 32")));
}

TEST(MemoryPlannerTest, ACacheSizeBeyondTheLimitIsRefused) {
  const PlanInputs inputs = InputsWithRoomFor(10, 160);
  CacheOptions cache = WholeMemory();
  cache.kv_cache_memory_bytes = 11 * kBytesPerBlock;
  EXPECT_THAT(
      Refusal(inputs, {}, cache),
      AllOf(
          HasSubstr("kv_cache_memory_bytes is 180224"),
          HasSubstr(
              "kv_cache_memory_bytes may be at most 163840, for a max_model_len of at most 160")));
  cache.kv_cache_memory_bytes = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(Refusal(inputs, {}, cache), HasSubstr("9223372036854775807"));
}

TEST(MemoryPlannerTest, TheLargestMemoryThatANumberHoldsIsNotWrapped) {
  const EnginePlan plan = MustPlan(Inputs(std::numeric_limits<int64_t>::max()), {}, WholeMemory());

  EXPECT_EQ(plan.max_model_len, 512);
  EXPECT_GT(plan.memory.limit_bytes, int64_t{1} << 62);
}

TEST(MemoryPlannerTest, TheLargestModelThatMetadataAllowsIsRefusedWithoutOverflow) {
  PlanInputs inputs = Inputs(int64_t{64} << 30);
  inputs.config.num_layers = 1024;
  inputs.config.num_heads = 1024;
  inputs.config.num_kv_heads = 1024;
  inputs.config.head_dim = 256;
  inputs.config.rot_dim = 256;
  inputs.config.hidden_dim = 1 << 18;
  inputs.config.ffn_dim = 1 << 18;
  inputs.config.context_length = 1 << 27;
  inputs.config.vocab_size = std::numeric_limits<int32_t>::max();
  inputs.weight_bytes = int64_t{1} << 50;
  inputs.max_rows = 16384;
  inputs.num_threads = 256;
  // 2 x 1024 layers x 1024 heads x 256 x 2 bytes x 2^27 tokens = 2^57
  const std::string message = Refusal(inputs, {}, WholeMemory());
  EXPECT_THAT(message, AllOf(HasSubstr("need 144115188075855872 bytes"),
                             HasSubstr("longest max_model_len that fits is 0")));
}

TEST(MemoryPlannerTest, ABlockSizeThatIsNoneIsRefused) {
  CacheOptions cache = WholeMemory();
  cache.block_size = 24;
  const Result<EnginePlan> plan = PlanMemory(Inputs(int64_t{1} << 30), {}, cache);

  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(plan.status().message(), HasSubstr("24"));
}

// SmolLM2-135M: 30 layers, 576 wide, 1536 inside, 9 heads of 64 that share 3.
model::ModelConfig SmallConfig() {
  model::ModelConfig config;
  config.num_layers = 30;
  config.hidden_dim = 576;
  config.ffn_dim = 1536;
  config.num_heads = 9;
  config.num_kv_heads = 3;
  config.head_dim = 64;
  return config;
}

// 2 x 30 x (2 x 576 x (576 + 192) + 3 x 576 x 1536) = 212 million operations a token; 40 billion
// in half a second of one AVX2 thread are 188 tokens.
TEST(DefaultMaxNumBatchedTokensTest, HoldsHalfASecondOfWork) {
  EXPECT_EQ(DefaultMaxNumBatchedTokens(SmallConfig(), /*has_avx512=*/false, 1), 128);
  EXPECT_EQ(DefaultMaxNumBatchedTokens(SmallConfig(), /*has_avx512=*/false, 2), 256);
  EXPECT_EQ(DefaultMaxNumBatchedTokens(SmallConfig(), /*has_avx512=*/true, 1), 256);
}

TEST(DefaultMaxNumBatchedTokensTest, StaysBetween16And512WhateverTheModel) {
  model::ModelConfig huge = SmallConfig();
  huge.num_layers = 1024;
  huge.hidden_dim = 1 << 18;
  huge.ffn_dim = 1 << 18;
  huge.num_heads = 1024;
  huge.num_kv_heads = 1024;
  huge.head_dim = 256;
  EXPECT_EQ(DefaultMaxNumBatchedTokens(huge, false, 1), 16);
  EXPECT_EQ(DefaultMaxNumBatchedTokens(SmallConfig(), true, 256), 512);
}

}  // namespace
}  // namespace octavo::engine
