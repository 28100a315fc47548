// The engine as its callers see it: options, memory, cached prefixes and text. On tiny models.

#include "octavo/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cfenv>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "engine/test_engine.h"

namespace octavo::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Status RefusalOf(const EngineOptions& options) {
  const Result<std::unique_ptr<Engine>> engine = Engine::Create(options);
  EXPECT_FALSE(engine.ok());
  return engine.status();
}

std::vector<TokenId> Joined(std::vector<TokenId> first, const std::vector<TokenId>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// --- Options ---------------------------------------------------------------------------------

TEST(EngineOptionsTest, EachOptionOutOfItsRangeIsNamedWithValueAndLimit) {
  const struct {
    std::function<void(EngineOptions&)> set;
    const char* name_and_value;
    const char* limit;
  } cases[] = {
      {[](EngineOptions& o) { o.model.max_model_len = 0; }, "max_model_len is 0", "[1, 134217728]"},
      {[](EngineOptions& o) { o.model.max_model_len = (1 << 27) + 1; },
       "max_model_len is 134217729", "[1, 134217728]"},
      {[](EngineOptions& o) { o.device.threads = 0; }, "threads is 0", "[1, 256]"},
      {[](EngineOptions& o) { o.device.threads = 257; }, "threads is 257", "[1, 256]"},
      {[](EngineOptions& o) { o.scheduler.max_num_batched_tokens = 0; },
       "max_num_batched_tokens is 0", "[1, 16384]"},
      {[](EngineOptions& o) { o.scheduler.max_num_batched_tokens = 16385; },
       "max_num_batched_tokens is 16385", "[1, 16384]"},
      {[](EngineOptions& o) { o.cache.kv_cache_memory_bytes = 0; }, "kv_cache_memory_bytes is 0",
       "[1, "},
      {[](EngineOptions& o) { o.cache.kv_cache_memory_bytes = -5; }, "kv_cache_memory_bytes is -5",
       "[1, "},
      {[](EngineOptions& o) { o.cache.gpu_memory_utilization = 0.0; },
       "gpu_memory_utilization is 0", "(0, 1]"},
      {[](EngineOptions& o) { o.cache.gpu_memory_utilization = 1.01; },
       "gpu_memory_utilization is 1.01", "(0, 1]"},
      {[](EngineOptions& o) {
         o.cache.gpu_memory_utilization = std::numeric_limits<double>::quiet_NaN();
       },
       "gpu_memory_utilization is nan", "(0, 1]"},
      {[](EngineOptions& o) { o.cache.block_size = 0; }, "block_size is 0", "8, 16, 32"},
      {[](EngineOptions& o) { o.cache.block_size = 4; }, "block_size is 4", "8, 16, 32"},
      {[](EngineOptions& o) { o.cache.block_size = 24; }, "block_size is 24", "8, 16, 32"},
      {[](EngineOptions& o) { o.cache.block_size = 512; }, "block_size is 512", "256"},
  };
  for (const auto& c : cases) {
    EngineOptions options = TinyOptions();
    c.set(options);
    const Status status = RefusalOf(options);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << c.name_and_value;
    EXPECT_THAT(status.message(), AllOf(HasSubstr(c.name_and_value), HasSubstr(c.limit)));
  }
}

TEST(EngineOptionsTest, TheEndsOfEachRangeAreAccepted) {
  EngineOptions options = TinyOptions();
  options.model.max_model_len = 1;
  options.scheduler.max_num_batched_tokens = 1;
  options.cache.gpu_memory_utilization = 1.0;
  options.cache.block_size = 256;
  EXPECT_NE(MakeEngine(options), nullptr);
  options.scheduler.max_num_batched_tokens = 16384;
  options.cache.block_size = 8;
  EXPECT_NE(MakeEngine(options), nullptr);
}

TEST(EngineOptionsTest, AMissingModelIsNamed) {
  EngineOptions options;
  EXPECT_EQ(RefusalOf(options).code(), StatusCode::kInvalidArgument);
  options.model.path = "/nowhere/model.gguf";
  const Status status = RefusalOf(options);
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("/nowhere/model.gguf"));
}

TEST(EngineOptionsTest, KernelsOfAnotherKindOfProcessorAreRefusedWithTheBestThatRun) {
  EngineOptions options = TinyOptions();
  const std::string best = MakeEngine(options)->model_info().simd;
  options.device.simd = best == "neon" ? SimdLevel::kAvx2 : SimdLevel::kNeon;
  const Status status = RefusalOf(options);

  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr(best));
}

TEST(EngineOptionsTest, AMaxModelLenThatCannotFitIsRefusedWithWhatWould) {
  EngineOptions options = TinyOptions();
  options.cache.kv_cache_memory_bytes = 100 * 1024;  // a token takes 1024 bytes, a block 16384
  options.model.max_model_len = 97;
  const Status status = RefusalOf(options);

  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("longest max_model_len that fits is 96"));
  options.model.max_model_len.reset();
  EXPECT_EQ(MakeEngine(options)->model_info().max_model_len, 96);
}

TEST(EngineTest, InfoTellsTheModelAndWhatThisEngineMadeOfIt) {
  EngineOptions options = TinyOptions();
  options.device.threads = 2;
  options.device.simd = SimdLevel::kReference;
  options.model.max_model_len = 100;
  const std::unique_ptr<Engine> engine = MakeEngine(options);
  const ModelInfo& info = engine->model_info();

  EXPECT_EQ(info.name, "llama-mha-64");
  EXPECT_EQ(info.architecture, "llama");
  EXPECT_EQ(info.num_layers, 2);
  EXPECT_EQ(info.num_heads, 2);
  EXPECT_EQ(info.num_kv_heads, 2);
  EXPECT_EQ(info.head_dim, 64);
  EXPECT_EQ(info.hidden_dim, 64);
  EXPECT_EQ(info.ffn_dim, 96);
  EXPECT_EQ(info.vocab_size, 272);
  EXPECT_EQ(info.context_length, 512);
  EXPECT_EQ(info.max_model_len, 100);
  EXPECT_EQ(info.simd, "reference");
  EXPECT_EQ(info.threads, 2);
  EXPECT_GT(info.load_s, 0.0);
}

TEST(EngineTest, LoadProgressNeverFallsAndEndsAtOne) {
  EngineOptions options = TinyOptions();
  std::vector<double> shares;
  options.on_load_progress = [&shares](double share) { shares.push_back(share); };
  MakeEngine(options);

  ASSERT_FALSE(shares.empty());
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
  EXPECT_GT(shares.front(), 0.0);
  EXPECT_EQ(shares.back(), 1.0);
}

TEST(EngineTest, TheCallersRoundingModeChangesNoBitAndIsRestored) {
  SamplingParams params = Greedy(12);
  params.temperature = 1.0f;
  params.top_p = 0.9f;
  params.seed = 7;
  params.prompt_logprobs = 2;
  const auto run = [&params] {
    const Result<RequestOutput> output =
        MakeEngine(TinyOptions())->Generate(RandomPrompt(20), params);
    std::vector<uint32_t> bits = BitsOf(MustGenerate(output).logprobs);
    const std::vector<uint32_t> prompt_bits = BitsOf(output->prompt_logprobs);
    bits.insert(bits.end(), prompt_bits.begin(), prompt_bits.end());
    return bits;
  };
  const std::vector<uint32_t> to_nearest = run();

  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  const std::vector<uint32_t> upward = run();
  const int kept = std::fegetround();
  std::fesetround(FE_TONEAREST);

  EXPECT_EQ(upward, to_nearest);
  EXPECT_EQ(kept, FE_UPWARD);
}

// The file's context of 512 tokens is longer than the 32 that its model was first trained for, so
// the long list of divisors is meant; how little memory there is must not choose the other one.
TEST(EngineTest, AContextThatMemoryShortensKeepsTheRotationsOfTheWholeOne) {
  EngineOptions options = TinyOptions("llama-rope-longrope-long");
  const std::unique_ptr<Engine> whole = MakeEngine(options);
  ASSERT_GT(whole->model_info().max_model_len, 32);
  options.cache.kv_cache_memory_bytes = 32 * whole->memory_plan().kv_bytes_per_token;
  const std::unique_ptr<Engine> shortened = MakeEngine(options);
  ASSERT_EQ(shortened->model_info().max_model_len, 32);

  EXPECT_EQ(BitsOf(MustGenerate(shortened->Generate(RandomPrompt(20), Greedy(8))).logprobs),
            BitsOf(MustGenerate(whole->Generate(RandomPrompt(20), Greedy(8))).logprobs));
}

// --- Memory ----------------------------------------------------------------------------------

TEST(EngineTest, WhatIsHeldIsAtMostWhatWasPlannedTagByTag) {
  for (KvCacheMode mode : {KvCacheMode::kPaged, KvCacheMode::kContiguous, KvCacheMode::kNone}) {
    for (KvCacheDtype dtype :
         {KvCacheDtype::kFloat16, KvCacheDtype::kFloat32, KvCacheDtype::kInt8}) {
      EngineOptions options = TinyOptions();
      options.cache.mode = mode;
      options.cache.dtype = dtype;
      options.device.threads = 3;
      const std::unique_ptr<Engine> engine = MakeEngine(options);
      MustGenerate(engine->Generate(RandomPrompt(50), Greedy(4)));
      const MemoryPlan plan = engine->memory_plan();

      for (size_t tag = 0; tag < kNumMemoryTags; ++tag) {
        EXPECT_LE(plan.actual.bytes[tag], plan.planned.bytes[tag])
            << MemoryTagName(static_cast<MemoryTag>(tag));
      }
      for (MemoryTag tag : {MemoryTag::kWeights, MemoryTag::kKvCache, MemoryTag::kActivations,
                            MemoryTag::kTokenizer, MemoryTag::kScratch}) {
        EXPECT_GT(plan.actual[tag], 0) << MemoryTagName(tag);
      }
      EXPECT_LE(plan.planned.total(), plan.limit_bytes);
      // 2 layers, K and V, 2 heads of 64, or of 64 and a scale
      const int64_t bytes_per_token = dtype == KvCacheDtype::kFloat32 ? 2048
                                      : dtype == KvCacheDtype::kInt8  ? 528
                                                                      : 1024;
      EXPECT_EQ(plan.kv_bytes_per_token, bytes_per_token);
      EXPECT_EQ(plan.actual[MemoryTag::kKvCache], 16 * 512 * bytes_per_token);
    }
  }
}

// --- Cached prefixes -------------------------------------------------------------------------

TEST(CachedPrefixTest, ASecondTurnReusesAllTokensButTheLastOutput) {
  const std::unique_ptr<Engine> engine = MakeEngine(TinyOptions());
  const Result<RequestOutput> first = engine->Generate(RandomPrompt(30), Greedy(10));
  const CompletionOutput answer = MustGenerate(first);
  EXPECT_EQ(first->num_cached_tokens, 0);

  const std::vector<TokenId> prompt =
      Joined(Joined(RandomPrompt(30), answer.token_ids), RandomPrompt(5, 9));
  const Result<RequestOutput> second = engine->Generate(prompt, Greedy(10));

  // The last output token was never fed back.
  EXPECT_EQ(second->num_cached_tokens, 39);
  EXPECT_EQ(BitsOf(MustGenerate(second).logprobs), BitsAlone(prompt, Greedy(10)));
  ExpectSound(*engine);
}

TEST(CachedPrefixTest, ThePrefixCountsTokenByToken) {
  const std::unique_ptr<Engine> engine = MakeEngine(TinyOptions());
  const std::vector<TokenId> prompt = RandomPrompt(40);
  const std::vector<uint32_t> cold = BitsAlone(prompt, Greedy(6));
  for (int32_t shared : {0, 1, 15, 16, 17, 31, 39}) {
    engine->ResetPrefixCache();
    std::vector<TokenId> other(prompt.begin(), prompt.begin() + shared);
    other.push_back(prompt[static_cast<size_t>(shared)] == 3 ? 4 : 3);
    other.push_back(8);
    MustGenerate(engine->Generate(other, Greedy(2)));
    const Result<RequestOutput> warm = engine->Generate(prompt, Greedy(6));

    EXPECT_EQ(warm->num_cached_tokens, shared);
    EXPECT_EQ(BitsOf(MustGenerate(warm).logprobs), cold) << shared << " shared tokens";
    ExpectSound(*engine);
  }
}

TEST(CachedPrefixTest, TheSamePromptAgainComputesItsLastTokenOnly) {
  const std::unique_ptr<Engine> engine = MakeEngine(TinyOptions());
  const CompletionOutput first = MustGenerate(engine->Generate(RandomPrompt(40), Greedy(6)));
  const Result<RequestOutput> again = engine->Generate(RandomPrompt(40), Greedy(6));

  EXPECT_EQ(again->num_cached_tokens, 39);
  EXPECT_EQ(BitsOf(MustGenerate(again).logprobs), BitsOf(first.logprobs));
}

TEST(CachedPrefixTest, PromptLogprobsComputeThePromptAnew) {
  const std::unique_ptr<Engine> engine = MakeEngine(TinyOptions());
  SamplingParams params = Greedy(2);
  params.prompt_logprobs = 1;
  const Result<RequestOutput> cold = engine->Generate(RandomPrompt(40), params);
  const Result<RequestOutput> warm = engine->Generate(RandomPrompt(40), params);

  EXPECT_EQ(warm->num_cached_tokens, 0);
  EXPECT_EQ(warm->prompt_logprobs.size(), 39u);
  EXPECT_EQ(BitsOf(warm->prompt_logprobs), BitsOf(cold->prompt_logprobs));
}

TEST(CachedPrefixTest, AnotherSaltFindsNothingAndTheSameSaltFindsAll) {
  const std::unique_ptr<Engine> engine = MakeEngine(TinyOptions());
  const auto cached_with = [&engine](const std::string& salt) {
    Request request;
    request.prompt_token_ids = RandomPrompt(40);
    request.params = Greedy(2);
    request.cache_salt = salt;
    return engine->Generate(std::move(request))->num_cached_tokens;
  };
  EXPECT_EQ(cached_with("one"), 0);
  EXPECT_EQ(cached_with("two"), 0);
  EXPECT_EQ(cached_with(""), 0);
  EXPECT_EQ(cached_with("one"), 39);
  EXPECT_EQ(cached_with(""), 39);
}

TEST(CachedPrefixTest, WithoutACacheNothingIsReused) {
  for (const bool paged : {true, false}) {
    EngineOptions options = TinyOptions();
    options.cache.mode = paged ? KvCacheMode::kPaged : KvCacheMode::kNone;
    options.cache.enable_prefix_caching = false;
    const std::unique_ptr<Engine> engine = MakeEngine(options);
    MustGenerate(engine->Generate(RandomPrompt(40), Greedy(2)));

    EXPECT_EQ(engine->Generate(RandomPrompt(40), Greedy(2))->num_cached_tokens, 0);
    ExpectSound(*engine);  // and the statistics are of this moment
    EXPECT_EQ(engine->stats().cache.num_blocks_in_use, 0u);
  }
}

TEST(CachedPrefixTest, APinIsKeptForItsTimeAndEndsByUnpin) {
  const std::unique_ptr<Engine> engine = MakeEngine(TinyOptions());
  MustGenerate(engine->Generate(RandomPrompt(40), Greedy(2)));
  for (const int64_t ttl_ms : {INT64_MIN, int64_t{-1}, int64_t{0}}) {
    EXPECT_EQ(engine->Pin(RandomPrompt(40), ttl_ms).num_tokens, 0);
  }
  EXPECT_EQ(engine->Pin(RandomPrompt(40, 5), 1000).num_tokens, 0);  // not cached
  EXPECT_EQ(engine->Pin(RandomPrompt(40), 1000, "salt").num_tokens, 0);

  const PinnedPrefix pinned = engine->Pin(RandomPrompt(40), INT64_MAX);
  EXPECT_EQ(pinned.num_tokens, 40);
  EXPECT_GT(engine->stats().cache.num_pinned_blocks, 0u);
  EXPECT_TRUE(engine->Unpin(pinned.pin_id));
  EXPECT_FALSE(engine->Unpin(pinned.pin_id));
  EXPECT_EQ(engine->stats().cache.num_pinned_blocks, 0u);
  ExpectSound(*engine);
}

// What is refused before it reaches the engine thread, by name and limit.
TEST(ManyRequestsTest, HostileSizesAreRefusedWithTheirLimits) {
  const std::unique_ptr<Engine> engine = MakeEngine(TinyOptions());
  const auto refusal = [&engine](const auto& change) {
    Request request;
    request.prompt_token_ids = RandomPrompt(10);
    request.params = Greedy(100);
    change(request);
    const auto stream = engine->Submit(std::move(request));
    EXPECT_FALSE(stream.ok());
    return stream.status().message();
  };
  EXPECT_THAT(refusal([](Request& r) { r.cache_salt.assign(1025, 'x'); }),
              AllOf(HasSubstr("cache_salt has 1025 bytes"), HasSubstr("1024")));
  EXPECT_THAT(refusal([](Request& r) { r.pin_ttl_ms = 0; }), HasSubstr("pin_ttl_ms is 0"));
  EXPECT_THAT(refusal([](Request& r) {
                r.beam_search.emplace();
                r.params.logprobs = 3;
              }),
              HasSubstr("logprobs must be 0"));
}

TEST(CachedPrefixTest, AnAbortedRequestLeavesAPrefixThatCanBeReused) {
  const std::unique_ptr<Engine> engine = MakeEngine(TinyOptions());
  MustGenerate(
      engine->Generate(RandomPrompt(40), Greedy(20), [](const RequestDelta&) { return false; }));
  ExpectSound(*engine);
  const Result<RequestOutput> next = engine->Generate(RandomPrompt(40), Greedy(5));

  EXPECT_EQ(next->num_cached_tokens, 39);
  EXPECT_EQ(BitsOf(MustGenerate(next).logprobs), BitsAlone(RandomPrompt(40), Greedy(5)));
}

// --- Text ------------------------------------------------------------------------------------

TEST(EngineTest, TextGeneratesWhatItsTokensGenerate) {
  const std::unique_ptr<Engine> engine = MakeEngine(TinyOptions());
  const Result<std::vector<TokenId>> tokens = engine->Tokenize("the hen ate");
  ASSERT_TRUE(tokens.ok());
  const Result<RequestOutput> from_text = engine->Generate("the hen ate", Greedy(8));

  EXPECT_EQ(from_text->prompt_token_ids, *tokens);
  EXPECT_EQ(BitsOf(MustGenerate(from_text).logprobs),
            BitsOf(MustGenerate(engine->Generate(*tokens, Greedy(8))).logprobs));
}

TEST(EngineTest, DetokenizingATokenOutsideTheVocabularyIsRefused) {
  const std::unique_ptr<Engine> engine = MakeEngine(TinyOptions());
  for (TokenId id : {-1, 272}) {
    const Result<std::string> text = engine->Detokenize({5, id});
    ASSERT_FALSE(text.ok());
    EXPECT_THAT(text.status().message(),
                AllOf(HasSubstr("token 1 is " + std::to_string(id)), HasSubstr("[0, 271]")));
  }
}

TEST(EngineTest, AModelWithoutAChatTemplateServesEverythingButChat) {
  const std::unique_ptr<Engine> engine = MakeEngine(TinyOptions());
  const Result<std::vector<TokenId>> chat =
      engine->ApplyChatTemplate(std::vector<ChatMessage>{{"user", "hello"}});

  ASSERT_FALSE(chat.ok());
  EXPECT_THAT(chat.status().message(), HasSubstr("chat"));
  MustGenerate(engine->Generate({5}, Greedy(2)));
}

}  // namespace
}  // namespace octavo::engine
