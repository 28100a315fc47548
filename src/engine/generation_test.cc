// One request from its prompt to its end: what ends it, what is reported and what is streamed.

#include "engine/generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/memory_planner.h"
#include "engine/test_engine.h"
#include "model/test_model_file.h"

namespace octavo::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr TokenId kEos = 2;
constexpr int32_t kVocab = 272;

class GenerationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    EngineOptions options = TinyOptions();
    options.model.max_model_len = kMaxModelLen;
    engine_ = MakeEngine(options);
    ASSERT_NE(engine_, nullptr);
  }
  void TearDown() override {
    const Status status = engine_->CheckIntegrity();
    EXPECT_TRUE(status.ok()) << status.message();
  }

  CompletionOutput Generate(const SamplingParams& params, size_t prompt_tokens = 10,
                            const DeltaCallback& on_delta = nullptr) {
    return MustGenerate(engine_->Generate(RandomPrompt(prompt_tokens), params, on_delta));
  }
  // What a request is refused with.
  Status Refusal(const std::vector<TokenId>& prompt, const SamplingParams& params) {
    bool called = false;
    const Result<RequestOutput> result =
        engine_->Generate(prompt, params, [&called](const RequestDelta&) { return called = true; });
    EXPECT_FALSE(result.ok());
    EXPECT_FALSE(called);
    return result.status();
  }

  static constexpr int32_t kMaxModelLen = 96;
  std::unique_ptr<Engine> engine_;
};

std::vector<TokenId> FirstOf(const std::vector<TokenId>& tokens, size_t count) {
  return {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count)};
}

// --- What is refused -------------------------------------------------------------------------

TEST_F(GenerationTest, AnEmptyPromptIsRefused) {
  const Status status = Refusal({}, Greedy(4));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("prompt is empty"));
}

TEST_F(GenerationTest, TokensOutsideTheVocabularyAreRefusedByPlaceAndLimit) {
  for (TokenId id : {-1, kVocab, 1 << 30}) {
    const Status status = Refusal({5, 6, id}, Greedy(4));
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("prompt token 2 is " + std::to_string(id)), HasSubstr("[0, 271]")));
  }
}

TEST_F(GenerationTest, APromptThatFillsTheContextIsRefusedAndOneTokenLessIsServed) {
  const Status status = Refusal(RandomPrompt(kMaxModelLen), Greedy(4));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("has 96 tokens"), HasSubstr("max_model_len is 96")));

  const CompletionOutput output = Generate(Greedy(4), kMaxModelLen - 1);
  EXPECT_EQ(output.token_ids.size(), 1u);
  EXPECT_EQ(output.finish_reason, FinishReason::kLength);
}

TEST_F(GenerationTest, ParametersOutOfRangeAreRefused) {
  SamplingParams params = Greedy(4);
  params.temperature = -1.0f;
  EXPECT_THAT(Refusal({5}, params).message(), HasSubstr("temperature is -1"));
  params = Greedy(4);
  params.logprobs = kVocab + 1;
  EXPECT_THAT(Refusal({5}, params).message(), HasSubstr("[-1, 272]"));
  params = Greedy(4);
  params.stop_token_ids = {kVocab};
  EXPECT_THAT(Refusal({5}, params).message(), HasSubstr("272"));
}

TEST_F(GenerationTest, ParametersThatLeaveNoTokenToChooseAreRefused) {
  SamplingParams params = Greedy(4);
  params.ignore_eos = false;
  params.allowed_token_ids = {kEos};
  params.min_tokens = 2;
  EXPECT_EQ(Refusal({5}, params).code(), StatusCode::kInvalidArgument);
}

// --- What ends a request ---------------------------------------------------------------------

TEST_F(GenerationTest, MaxTokensEndsWithLength) {
  for (int32_t max_tokens : {1, 2, 17}) {
    const CompletionOutput output = Generate(Greedy(max_tokens));
    EXPECT_EQ(output.token_ids.size(), static_cast<size_t>(max_tokens));
    EXPECT_EQ(output.finish_reason, FinishReason::kLength);
    EXPECT_TRUE(std::holds_alternative<std::monostate>(output.stop_reason));
  }
}

TEST_F(GenerationTest, WithoutMaxTokensTheContextIsFilled) {
  SamplingParams params = Greedy(1);
  params.max_tokens.reset();
  const CompletionOutput output = Generate(params, 80);

  EXPECT_EQ(output.token_ids.size(), kMaxModelLen - 80u);
  EXPECT_EQ(output.finish_reason, FinishReason::kLength);
}

TEST_F(GenerationTest, AContextThatFillsUpBeforeMaxTokensEndsWithLength) {
  EXPECT_EQ(Generate(Greedy(1000), 90).token_ids.size(), kMaxModelLen - 90u);
}

TEST_F(GenerationTest, EndOfTextStopsAndGivesNoText) {
  SamplingParams params = Greedy(8);
  params.ignore_eos = false;
  params.logit_bias = {{kEos, 100.0f}};
  const CompletionOutput output = Generate(params);

  EXPECT_EQ(output.token_ids, (std::vector<TokenId>{kEos}));
  EXPECT_EQ(output.text, "");
  EXPECT_EQ(output.finish_reason, FinishReason::kStop);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(output.stop_reason));
}

TEST_F(GenerationTest, IgnoreEosGoesOnPastEndOfText) {
  SamplingParams params = Greedy(8);
  params.logit_bias = {{kEos, 100.0f}};
  const CompletionOutput output = Generate(params);

  EXPECT_EQ(output.token_ids, std::vector<TokenId>(8, kEos));
  EXPECT_EQ(output.finish_reason, FinishReason::kLength);
}

TEST_F(GenerationTest, AStopTokenEndsTheRequestAndIsNamed) {
  const CompletionOutput whole = Generate(Greedy(12));
  SamplingParams params = Greedy(12);
  const TokenId stop = whole.token_ids[5];
  params.stop_token_ids = {stop};
  const CompletionOutput output = Generate(params);

  const auto first = std::find(whole.token_ids.begin(), whole.token_ids.end(), stop);
  const auto count = static_cast<size_t>(first - whole.token_ids.begin()) + 1;
  EXPECT_EQ(output.token_ids, FirstOf(whole.token_ids, count));
  EXPECT_EQ(output.finish_reason, FinishReason::kStop);
  EXPECT_EQ(std::get<TokenId>(output.stop_reason), stop);
}

TEST_F(GenerationTest, MinTokensHoldsStopTokensAndEndOfTextBack) {
  SamplingParams params = Greedy(12);
  params.ignore_eos = false;
  params.logit_bias = {{kEos, 100.0f}};
  params.min_tokens = 5;
  const CompletionOutput output = Generate(params);

  ASSERT_EQ(output.token_ids.size(), 6u);
  EXPECT_EQ(std::count(output.token_ids.begin(), output.token_ids.end(), kEos), 1);
  EXPECT_EQ(output.token_ids.back(), kEos);
  EXPECT_EQ(output.finish_reason, FinishReason::kStop);
}

TEST_F(GenerationTest, AStopStringEndsTheTextBeforeItOrAfterItAsAsked) {
  const std::string whole = Generate(Greedy(40)).text;
  ASSERT_GE(whole.size(), 12u);
  const std::string stop = whole.substr(whole.size() / 2, 3);
  const size_t found = whole.find(stop);
  for (const bool include : {false, true}) {
    SamplingParams params = Greedy(40);
    params.stop = {"never in the text", stop};
    params.include_stop_str_in_output = include;
    const CompletionOutput output = Generate(params);

    EXPECT_EQ(output.text, whole.substr(0, found + (include ? stop.size() : 0)));
    EXPECT_EQ(output.finish_reason, FinishReason::kStop);
    EXPECT_EQ(std::get<std::string>(output.stop_reason), stop);
    EXPECT_LT(output.token_ids.size(), 40u);
  }
}

// --- What is reported ------------------------------------------------------------------------

TEST_F(GenerationTest, TheSeedIsReportedAndGivesTheSameTokensAgain) {
  SamplingParams params;
  params.ignore_eos = true;
  params.max_tokens = 24;
  const Result<RequestOutput> drawn = engine_->Generate(RandomPrompt(10), params);
  const std::vector<TokenId> tokens = MustGenerate(drawn).token_ids;

  params.seed = drawn->seed;
  const Result<RequestOutput> again = engine_->Generate(RandomPrompt(10), params);
  EXPECT_EQ(MustGenerate(again).token_ids, tokens);
  EXPECT_EQ(again->seed, drawn->seed);

  params.seed = drawn->seed + 1;
  EXPECT_NE(Generate(params).token_ids, tokens);
}

TEST_F(GenerationTest, WithoutASeedEachRequestDrawsItsOwn) {
  std::set<uint64_t> seeds;
  for (int i = 0; i < 8; ++i) seeds.insert(engine_->Generate({5}, Greedy(1))->seed);
  EXPECT_EQ(seeds.size(), 8u);
}

// Position by position, the two paths report the same model.
TEST_F(GenerationTest, PromptLogprobsAreWhatGenerationReportsForTheSameTokens) {
  SamplingParams params = Greedy(40);
  params.logprobs = 4;
  const CompletionOutput generated = Generate(params, 30);
  std::vector<TokenId> prompt = RandomPrompt(30);
  prompt.insert(prompt.end(), generated.token_ids.begin(), generated.token_ids.end());
  SamplingParams report = Greedy(1);
  report.prompt_logprobs = 4;
  const Result<RequestOutput> reported = engine_->Generate(prompt, report);
  ASSERT_TRUE(reported.ok()) << reported.status().message();

  ASSERT_EQ(reported->prompt_logprobs.size(), prompt.size() - 1);
  for (size_t i = 0; i + 1 < prompt.size(); ++i) {
    EXPECT_EQ(reported->prompt_logprobs[i].chosen.token_id, prompt[i + 1]);
  }
  EXPECT_EQ(BitsOf({reported->prompt_logprobs.end() - 40, reported->prompt_logprobs.end()}),
            BitsOf(generated.logprobs));
}

TEST_F(GenerationTest, PromptLogprobsDoNotDependOnTheChunks) {
  SamplingParams params = Greedy(3);
  params.prompt_logprobs = 2;
  const std::vector<TokenId> prompt = RandomPrompt(70);
  const Result<RequestOutput> whole = engine_->Generate(prompt, params);
  ASSERT_TRUE(whole.ok());
  for (int32_t chunk : {1, 7, 16, 17, 35, 70}) {
    EngineOptions options = TinyOptions();
    options.scheduler.max_num_batched_tokens = chunk;
    const Result<RequestOutput> chunked = MakeEngine(options)->Generate(prompt, params);
    ASSERT_TRUE(chunked.ok());
    EXPECT_EQ(BitsOf(chunked->prompt_logprobs), BitsOf(whole->prompt_logprobs)) << chunk;
    EXPECT_EQ(BitsOf(chunked->outputs[0].logprobs), BitsOf(whole->outputs[0].logprobs)) << chunk;
  }
}

TEST_F(GenerationTest, AOneTokenPromptHasNoPromptLogprobs) {
  SamplingParams params = Greedy(2);
  params.prompt_logprobs = 0;
  const Result<RequestOutput> result = engine_->Generate({7}, params);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->prompt_logprobs.empty());
}

TEST_F(GenerationTest, LogprobsMinusOneReportsTheWholeDistribution) {
  SamplingParams params = Greedy(3);
  params.logprobs = -1;
  const CompletionOutput output = Generate(params);

  ASSERT_EQ(output.logprobs.size(), 3u);
  for (const TokenLogprobs& entry : output.logprobs) {
    ASSERT_EQ(entry.top.size(), static_cast<size_t>(kVocab));
    double sum = 0;
    for (size_t i = 0; i < entry.top.size(); ++i) {
      EXPECT_EQ(entry.top[i].rank, static_cast<int32_t>(i) + 1);
      sum += std::exp(static_cast<double>(entry.top[i].logprob));
    }
    EXPECT_NEAR(sum, 1.0, 1e-5);
    EXPECT_EQ(entry.chosen.token_id, entry.top[0].token_id);  // greedy
  }
}

TEST_F(GenerationTest, LogprobsZeroReportsTheChosenTokenAloneAndAbsentNone) {
  SamplingParams params = Greedy(3);
  params.logprobs = 0;
  for (const TokenLogprobs& entry : Generate(params).logprobs) {
    EXPECT_TRUE(entry.top.empty());
    EXPECT_LT(entry.chosen.logprob, 0.0f);
  }
  params.logprobs.reset();
  EXPECT_TRUE(Generate(params).logprobs.empty());
}

TEST_F(GenerationTest, TimesAreReportedInOrder) {
  const Result<RequestOutput> result = engine_->Generate(RandomPrompt(40), Greedy(8));
  ASSERT_TRUE(result.ok());
  EXPECT_GT(result->timing.prefill_s, 0.0);
  EXPECT_GE(result->timing.ttft_s, result->timing.prefill_s);
  EXPECT_GT(result->timing.decode_s, 0.0);
}

TEST_F(GenerationTest, SpecialTokensAreSkippedOrSpelledAsAsked) {
  SamplingParams params = Greedy(3);
  params.allowed_token_ids = {1};
  EXPECT_EQ(Generate(params).text, "");
  params.skip_special_tokens = false;
  EXPECT_EQ(Generate(params).text, "<s><s><s>");
}

TEST_F(GenerationTest, WithoutDetokenizingThereAreTokensButNoText) {
  SamplingParams params = Greedy(12);
  params.detokenize = false;
  const CompletionOutput output = Generate(params);
  EXPECT_EQ(output.text, "");
  EXPECT_EQ(output.token_ids, Generate(Greedy(12)).token_ids);
}

// The byte E2 begins a character of three bytes, which never comes.
TEST_F(GenerationTest, AnUnfinishedCharacterAtTheEndIsReplaced) {
  SamplingParams params = Greedy(1);
  params.allowed_token_ids = {3 + 0xE2};
  std::string streamed;
  const CompletionOutput output = Generate(params, 10, [&streamed](const RequestDelta& delta) {
    streamed += delta.text;
    return true;
  });

  EXPECT_EQ(output.text, "\xEF\xBF\xBD");
  EXPECT_EQ(streamed, output.text);
}

// --- What is streamed ------------------------------------------------------------------------

TEST_F(GenerationTest, TheDeltasAreTheOutputPieceByPiece) {
  SamplingParams sampled = Greedy(40);
  sampled.temperature = 1.0f;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    sampled.seed = seed;
    sampled.stop = {"e", "th"};
    std::string text;
    std::vector<TokenId> tokens;
    std::vector<FinishReason> reasons;
    const CompletionOutput output = Generate(sampled, 10, [&](const RequestDelta& delta) {
      text += delta.text;
      tokens.insert(tokens.end(), delta.token_ids.begin(), delta.token_ids.end());
      reasons.push_back(delta.finish_reason);
      return true;
    });
    EXPECT_EQ(text, output.text) << "seed " << seed;
    EXPECT_EQ(tokens, output.token_ids) << "seed " << seed;
    ASSERT_FALSE(reasons.empty());
    EXPECT_EQ(reasons.back(), output.finish_reason) << "seed " << seed;
    reasons.pop_back();
    EXPECT_EQ(std::count(reasons.begin(), reasons.end(), FinishReason::kNone),
              static_cast<std::ptrdiff_t>(reasons.size()));
  }
}

TEST_F(GenerationTest, ACallbackThatReturnsFalseAborts) {
  int calls = 0;
  const CompletionOutput output =
      Generate(Greedy(40), 10, [&calls](const RequestDelta&) { return ++calls < 3; });

  EXPECT_EQ(calls, 3);
  EXPECT_EQ(output.finish_reason, FinishReason::kAbort);
  EXPECT_EQ(output.token_ids, FirstOf(Generate(Greedy(40)).token_ids, 3));
}

TEST_F(GenerationTest, AbortFromTheCallbackEndsAfterTheStep) {
  FinishReason last = FinishReason::kNone;
  int calls = 0;
  const CompletionOutput output = Generate(Greedy(40), 10, [&](const RequestDelta& delta) {
    if (++calls == 2) engine_->Abort();
    last = delta.finish_reason;
    return true;
  });

  EXPECT_EQ(output.finish_reason, FinishReason::kAbort);
  EXPECT_EQ(last, FinishReason::kAbort);
  EXPECT_EQ(output.token_ids.size(), 2u);
  EXPECT_EQ(output.logprobs.size(), 2u);
}

TEST_F(GenerationTest, AbortFromAnotherThreadEndsTheRequest) {
  const CompletionOutput output = Generate(Greedy(40), 10, [&](const RequestDelta& delta) {
    if (!delta.token_ids.empty()) std::thread([this] { engine_->Abort(); }).join();
    return true;
  });

  EXPECT_EQ(output.finish_reason, FinishReason::kAbort);
  EXPECT_EQ(output.token_ids.size(), 1u);
}

TEST_F(GenerationTest, AnAbortedRequestLeavesTheNextOneAlone) {
  const CompletionOutput whole = Generate(Greedy(20));
  Generate(Greedy(20), 10, [this](const RequestDelta&) {
    engine_->Abort();
    return true;
  });
  engine_->Abort();  // no request runs
  const CompletionOutput next = Generate(Greedy(20));

  EXPECT_EQ(next.finish_reason, FinishReason::kLength);
  EXPECT_EQ(BitsOf(next.logprobs), BitsOf(whole.logprobs));
}

// The flag is set while the prompt is computed: one chunk of 16 tokens is done, and no more.
TEST(GenerationAbortTest, AnAbortDuringThePromptEndsAfterTheChunkWithoutAToken) {
  const model::LoadedFile file(TinyPath("llama-mha-64"));
  const Result<std::unique_ptr<text::Tokenizer>> tokenizer = text::LoadTokenizer(*file.file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  model::TestModel model(file, {});
  kvcache::BlockPool pool(64);
  std::vector<float> logits(static_cast<size_t>(kMaxLogitsRows) * kVocab);
  const std::atomic<bool> abort = true;
  GenerationContext context;
  context.sequence = {&model.model(), &model.store(), &pool, KvCacheMode::kPaged, 16, 512};
  context.tokenizer = tokenizer->get();
  context.logits = logits;
  context.abort = &abort;

  for (const bool prompt_logprobs : {false, true}) {
    SamplingParams params = Greedy(8);
    if (prompt_logprobs) params.prompt_logprobs = 0;
    Sequence sequence(context.sequence);
    std::vector<FinishReason> reasons;
    Generation generation(context, params, /*seed=*/1, /*num_prompt_tokens=*/40);
    const Result<RequestOutput> result =
        generation.Run(sequence, RandomPrompt(40), [&reasons](const RequestDelta& delta) {
          reasons.push_back(delta.finish_reason);
          return true;
        });
    const CompletionOutput output = MustGenerate(result);

    EXPECT_EQ(output.finish_reason, FinishReason::kAbort);
    EXPECT_TRUE(output.token_ids.empty());
    EXPECT_EQ(reasons, std::vector<FinishReason>{FinishReason::kAbort});
    EXPECT_EQ(sequence.num_computed_tokens(), 16);
  }
}

// --- A model that breaks down ----------------------------------------------------------------

class BrokenModelTest : public ::testing::TestWithParam<const char*> {};

TEST_P(BrokenModelTest, NonFiniteLogitsEndWithErrorAndNoToken) {
  const ModelWithNaN broken(GetParam());
  EngineOptions options = TinyOptions();
  options.model.path = broken.path();
  const std::unique_ptr<Engine> engine = MakeEngine(options);
  ASSERT_NE(engine, nullptr);

  for (const bool prompt_logprobs : {false, true}) {
    SamplingParams params = Greedy(8);
    if (prompt_logprobs) params.prompt_logprobs = 0;
    std::vector<FinishReason> reasons;
    const Result<RequestOutput> result =
        engine->Generate(RandomPrompt(40), params, [&reasons](const RequestDelta& delta) {
          EXPECT_TRUE(delta.token_ids.empty());
          reasons.push_back(delta.finish_reason);
          return true;
        });
    const CompletionOutput output = MustGenerate(result);

    EXPECT_EQ(output.finish_reason, FinishReason::kError);
    EXPECT_TRUE(output.token_ids.empty());
    EXPECT_TRUE(output.logprobs.empty());
    EXPECT_TRUE(result->prompt_logprobs.empty());
    EXPECT_EQ(output.text, "");
    EXPECT_EQ(reasons, std::vector<FinishReason>{FinishReason::kError});
    EXPECT_TRUE(engine->CheckIntegrity().ok());
  }
}

INSTANTIATE_TEST_SUITE_P(Norms, BrokenModelTest,
                         ::testing::Values("output_norm.weight", "blk.0.attn_norm.weight",
                                           "blk.1.ffn_norm.weight"));

}  // namespace
}  // namespace octavo::engine
