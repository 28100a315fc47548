// One request from its prompt to its end: what ends it, what is reported and what is streamed.

#include "engine/completion.h"

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

#include "engine/test_engine.h"

namespace octavo::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr TokenId kEos = 2;
constexpr int32_t kVocab = 272;

class CompletionTest : public ::testing::Test {
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

TEST_F(CompletionTest, AnEmptyPromptIsRefused) {
  const Status status = Refusal({}, Greedy(4));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("prompt is empty"));
}

TEST_F(CompletionTest, TokensOutsideTheVocabularyAreRefusedByPlaceAndLimit) {
  for (TokenId id : {-1, kVocab, 1 << 30}) {
    const Status status = Refusal({5, 6, id}, Greedy(4));
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("prompt token 2 is " + std::to_string(id)), HasSubstr("[0, 271]")));
  }
}

TEST_F(CompletionTest, APromptThatFillsTheContextIsRefusedAndOneTokenLessIsServed) {
  const Status status = Refusal(RandomPrompt(kMaxModelLen), Greedy(4));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("has 96 tokens"), HasSubstr("max_model_len is 96")));

  const CompletionOutput output = Generate(Greedy(4), kMaxModelLen - 1);
  EXPECT_EQ(output.token_ids.size(), 1u);
  EXPECT_EQ(output.finish_reason, FinishReason::kLength);
}

TEST_F(CompletionTest, ParametersOutOfRangeAreRefused) {
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

TEST_F(CompletionTest, ParametersThatLeaveNoTokenToChooseAreRefused) {
  SamplingParams params = Greedy(4);
  params.ignore_eos = false;
  params.allowed_token_ids = {kEos};
  params.min_tokens = 2;
  EXPECT_EQ(Refusal({5}, params).code(), StatusCode::kInvalidArgument);
}

// --- What ends a request ---------------------------------------------------------------------

TEST_F(CompletionTest, MaxTokensEndsWithLength) {
  for (int32_t max_tokens : {1, 2, 17}) {
    const CompletionOutput output = Generate(Greedy(max_tokens));
    EXPECT_EQ(output.token_ids.size(), static_cast<size_t>(max_tokens));
    EXPECT_EQ(output.finish_reason, FinishReason::kLength);
    EXPECT_TRUE(std::holds_alternative<std::monostate>(output.stop_reason));
  }
}

TEST_F(CompletionTest, WithoutMaxTokensTheContextIsFilled) {
  SamplingParams params = Greedy(1);
  params.max_tokens.reset();
  const CompletionOutput output = Generate(params, 80);

  EXPECT_EQ(output.token_ids.size(), kMaxModelLen - 80u);
  EXPECT_EQ(output.finish_reason, FinishReason::kLength);
}

TEST_F(CompletionTest, AContextThatFillsUpBeforeMaxTokensEndsWithLength) {
  EXPECT_EQ(Generate(Greedy(1000), 90).token_ids.size(), kMaxModelLen - 90u);
}

TEST_F(CompletionTest, EndOfTextStopsAndGivesNoText) {
  SamplingParams params = Greedy(8);
  params.ignore_eos = false;
  params.logit_bias = {{kEos, 100.0f}};
  const CompletionOutput output = Generate(params);

  EXPECT_EQ(output.token_ids, (std::vector<TokenId>{kEos}));
  EXPECT_EQ(output.text, "");
  EXPECT_EQ(output.finish_reason, FinishReason::kStop);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(output.stop_reason));
}

TEST_F(CompletionTest, IgnoreEosGoesOnPastEndOfText) {
  SamplingParams params = Greedy(8);
  params.logit_bias = {{kEos, 100.0f}};
  const CompletionOutput output = Generate(params);

  EXPECT_EQ(output.token_ids, std::vector<TokenId>(8, kEos));
  EXPECT_EQ(output.finish_reason, FinishReason::kLength);
}

TEST_F(CompletionTest, AStopTokenEndsTheRequestAndIsNamed) {
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

TEST_F(CompletionTest, MinTokensHoldsStopTokensAndEndOfTextBack) {
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

TEST_F(CompletionTest, AStopStringEndsTheTextBeforeItOrAfterItAsAsked) {
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

TEST_F(CompletionTest, TheSeedIsReportedAndGivesTheSameTokensAgain) {
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

TEST_F(CompletionTest, WithoutASeedEachRequestDrawsItsOwn) {
  std::set<uint64_t> seeds;
  for (int i = 0; i < 8; ++i) seeds.insert(engine_->Generate({5}, Greedy(1))->seed);
  EXPECT_EQ(seeds.size(), 8u);
}

// Position by position, the two paths report the same model.
TEST_F(CompletionTest, PromptLogprobsAreWhatGenerationReportsForTheSameTokens) {
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

TEST_F(CompletionTest, PromptLogprobsDoNotDependOnTheChunks) {
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

TEST_F(CompletionTest, AOneTokenPromptHasNoPromptLogprobs) {
  SamplingParams params = Greedy(2);
  params.prompt_logprobs = 0;
  const Result<RequestOutput> result = engine_->Generate({7}, params);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->prompt_logprobs.empty());
}

TEST_F(CompletionTest, LogprobsMinusOneReportsTheWholeDistribution) {
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

TEST_F(CompletionTest, LogprobsZeroReportsTheChosenTokenAloneAndAbsentNone) {
  SamplingParams params = Greedy(3);
  params.logprobs = 0;
  for (const TokenLogprobs& entry : Generate(params).logprobs) {
    EXPECT_TRUE(entry.top.empty());
    EXPECT_LT(entry.chosen.logprob, 0.0f);
  }
  params.logprobs.reset();
  EXPECT_TRUE(Generate(params).logprobs.empty());
}

TEST_F(CompletionTest, TimesAreReportedInOrder) {
  const Result<RequestOutput> result = engine_->Generate(RandomPrompt(40), Greedy(8));
  ASSERT_TRUE(result.ok());
  EXPECT_GT(result->timing.prefill_s, 0.0);
  EXPECT_GE(result->timing.ttft_s, result->timing.prefill_s);
  EXPECT_GT(result->timing.decode_s, 0.0);
}

TEST_F(CompletionTest, SpecialTokensAreSkippedOrSpelledAsAsked) {
  SamplingParams params = Greedy(3);
  params.allowed_token_ids = {1};
  EXPECT_EQ(Generate(params).text, "");
  params.skip_special_tokens = false;
  EXPECT_EQ(Generate(params).text, "<s><s><s>");
}

TEST_F(CompletionTest, WithoutDetokenizingThereAreTokensButNoText) {
  SamplingParams params = Greedy(12);
  params.detokenize = false;
  const CompletionOutput output = Generate(params);
  EXPECT_EQ(output.text, "");
  EXPECT_EQ(output.token_ids, Generate(Greedy(12)).token_ids);
}

// The byte E2 begins a character of three bytes, which never comes.
TEST_F(CompletionTest, AnUnfinishedCharacterAtTheEndIsReplaced) {
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

TEST_F(CompletionTest, TheDeltasAreTheOutputPieceByPiece) {
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

TEST_F(CompletionTest, ACallbackThatReturnsFalseAborts) {
  int calls = 0;
  const CompletionOutput output =
      Generate(Greedy(40), 10, [&calls](const RequestDelta&) { return ++calls < 3; });

  EXPECT_EQ(calls, 3);
  EXPECT_EQ(output.finish_reason, FinishReason::kAbort);
  EXPECT_EQ(output.token_ids, FirstOf(Generate(Greedy(40)).token_ids, 3));
}

// The engine runs ahead of its callers, so an abort may come too late for one request, but not for
// twenty in a row.
template <typename AbortFunction>
CompletionOutput AbortedInTime(Engine& engine, const AbortFunction& abort) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    FinishReason last = FinishReason::kNone;
    std::vector<TokenId> delivered;
    const CompletionOutput output =
        MustGenerate(engine.Generate(RandomPrompt(10), Greedy(80), [&](const RequestDelta& delta) {
          if (delivered.empty()) abort();
          delivered.insert(delivered.end(), delta.token_ids.begin(), delta.token_ids.end());
          last = delta.finish_reason;
          return true;
        }));
    EXPECT_EQ(last, output.finish_reason);
    EXPECT_EQ(delivered, output.token_ids);
    if (output.finish_reason == FinishReason::kAbort) return output;
  }
  ADD_FAILURE() << "no abort came in time";
  return {};
}

TEST_F(CompletionTest, AbortFromTheCallbackEndsTheRequestEarly) {
  const CompletionOutput output = AbortedInTime(*engine_, [this] { engine_->Abort(); });
  EXPECT_LT(output.token_ids.size(), 80u);
  EXPECT_EQ(output.token_ids, FirstOf(Generate(Greedy(80)).token_ids, output.token_ids.size()));
  EXPECT_EQ(output.logprobs.size(), output.token_ids.size());
}

TEST_F(CompletionTest, AbortFromAnotherThreadEndsTheRequestEarly) {
  const CompletionOutput output =
      AbortedInTime(*engine_, [this] { std::thread([this] { engine_->Abort(); }).join(); });
  EXPECT_LT(output.token_ids.size(), 80u);
}

TEST_F(CompletionTest, AnAbortedRequestLeavesTheNextOneAlone) {
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
