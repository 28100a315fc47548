// Many requests in one engine: alone and together, with too little room, dropped, with several
// completions. On tiny models.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/test_engine.h"
#include "octavo/engine.h"

namespace octavo::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ManyRequestsTest, RequestsThatRunTogetherGiveTheBitsThatTheyGiveAlone) {
  for (KvCacheMode mode : {KvCacheMode::kPaged, KvCacheMode::kContiguous, KvCacheMode::kNone}) {
    EngineOptions options = TinyOptions();
    options.cache.mode = mode;
    options.model.max_model_len = 128;
    options.cache.kv_cache_memory_bytes = 3 * 128 * 1024;  // three contexts
    options.scheduler.max_num_batched_tokens = 48;
    options.scheduler.check_integrity = true;
    const std::unique_ptr<Engine> engine = MakeEngine(options);
    std::vector<std::unique_ptr<RequestStream>> streams;
    for (uint32_t i = 0; i < 8; ++i) {
      Request request;
      request.prompt_token_ids = RandomPrompt(20 + 9 * i, i);
      request.params = Greedy(10);
      streams.push_back(*engine->Submit(std::move(request)));
    }
    for (uint32_t i = 0; i < 8; ++i) {
      const RequestOutput output = streams[i]->Finish();
      EXPECT_EQ(BitsOf(output.outputs.front().logprobs),
                BitsAlone(RandomPrompt(20 + 9 * i, i), Greedy(10)))
          << "request " << i << ", mode " << static_cast<int>(mode);
    }
    EXPECT_EQ(engine->stats().num_running, 0u);
    ExpectSound(*engine);
  }
}

TEST(ManyRequestsTest, APoolThatIsTooSmallForAllPreemptsAndGivesTheSameBits) {
  std::vector<std::vector<uint32_t>> alone;
  for (uint32_t i = 0; i < 4; ++i) alone.push_back(BitsAlone(RandomPrompt(12, i), Greedy(40)));
  for (const int64_t swap_bytes : {int64_t{0}, int64_t{1} << 20}) {
    EngineOptions options = TinyOptions();
    options.model.max_model_len = 64;
    options.cache.kv_cache_memory_bytes = 64 * 1024;  // one context: 4 blocks
    options.cache.swap_space_bytes = swap_bytes;
    options.scheduler.check_integrity = true;
    const std::unique_ptr<Engine> engine = MakeEngine(options);
    int32_t num_preemptions = 0;
    for (int round = 0; num_preemptions == 0 && round < kRoundsToMeet; ++round) {
      std::vector<std::unique_ptr<RequestStream>> streams;
      for (uint32_t i = 0; i < 4; ++i) {
        Request request;
        request.prompt_token_ids = RandomPrompt(12, i);
        request.params = Greedy(40);
        streams.push_back(*engine->Submit(std::move(request)));
      }
      for (uint32_t i = 0; i < 4; ++i) {
        const RequestOutput output = streams[i]->Finish();
        num_preemptions += output.num_preemptions;
        EXPECT_EQ(BitsOf(output.outputs.front().logprobs), alone[i]);
      }
    }
    EXPECT_GT(num_preemptions, 0);
    ExpectSound(*engine);
  }
}

TEST(ManyRequestsTest, AStreamThatIsDroppedEndsItsRequest) {
  const std::unique_ptr<Engine> engine = MakeEngine(TinyOptions());
  Request request;
  request.prompt_token_ids = RandomPrompt(40);
  request.params = Greedy(400);
  Result<std::unique_ptr<RequestStream>> stream = engine->Submit(request);
  ASSERT_TRUE((*stream)->Next().has_value());
  stream->reset();
  // Runs after the abort that the dropped stream has handed in.
  ExpectSound(*engine);
  EXPECT_EQ(engine->stats().cache.num_blocks_in_use, 0u);
}

TEST(ManyRequestsTest, EveryCompletionHasItsOwnDrawsAndThePromptIsCountedOnce) {
  const std::unique_ptr<Engine> engine = MakeEngine(TinyOptions());
  SamplingParams params = Greedy(12);
  params.temperature = 1.0f;
  params.seed = 7;
  params.n = 3;
  const Result<RequestOutput> together = engine->Generate(RandomPrompt(37), params);
  ASSERT_TRUE(together.ok()) << together.status().message();
  ASSERT_EQ(together->outputs.size(), 3u);
  for (int32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(together->outputs[static_cast<size_t>(i)].index, i);
    EXPECT_EQ(together->outputs[static_cast<size_t>(i)].token_ids.size(), 12u);
  }
  EXPECT_NE(together->outputs[0].token_ids, together->outputs[1].token_ids);
  EXPECT_NE(together->outputs[1].token_ids, together->outputs[2].token_ids);
  EXPECT_EQ(engine->stats().num_prompt_tokens, 37u);

  params.n = 1;
  const CompletionOutput alone = MustGenerate(engine->Generate(RandomPrompt(37), params));
  EXPECT_EQ(alone.token_ids, together->outputs[0].token_ids);
}

TEST(ManyRequestsTest, MoreCompletionsThanMayRunAreRefusedWithBothFigures) {
  EngineOptions options = TinyOptions();
  options.scheduler.max_num_seqs = 2;
  SamplingParams params = Greedy(4);
  params.n = 3;
  const Result<RequestOutput> result = MakeEngine(options)->Generate(RandomPrompt(5), params);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(result.status().message(), AllOf(HasSubstr("3"), HasSubstr("max_num_seqs allows 2")));
}

}  // namespace
}  // namespace octavo::engine
