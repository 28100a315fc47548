// Structured outputs in a whole engine: what a request asks for comes out, and nothing else about
// it or about its neighbours changes. On tiny models, and on the default model if it is there.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "engine/test_engine.h"
#include "octavo/engine.h"
#include "text/text_test_util.h"

namespace octavo::engine {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr TokenId kTinyEnd = 2;

SamplingParams Sampled(int32_t max_tokens, uint64_t seed = 3) {
  SamplingParams params = Greedy(max_tokens);
  params.temperature = 1.0f;
  params.seed = seed;
  params.ignore_eos = false;
  return params;
}

SamplingParams WithRegex(SamplingParams params, const std::string& regex) {
  params.structured_outputs.emplace();
  params.structured_outputs->regex = regex;
  return params;
}

SamplingParams WithChoice(SamplingParams params, const std::vector<std::string>& choice) {
  params.structured_outputs.emplace();
  params.structured_outputs->choice = choice;
  return params;
}

SamplingParams WithSchema(SamplingParams params, const std::string& schema) {
  params.structured_outputs.emplace();
  params.structured_outputs->json = schema;
  return params;
}

Request RequestOf(std::vector<TokenId> prompt, SamplingParams params) {
  Request request;
  request.prompt_token_ids = std::move(prompt);
  request.params = std::move(params);
  return request;
}

std::string RefusalOf(Engine& engine, Request request) {
  const auto stream = engine.Submit(std::move(request));
  EXPECT_FALSE(stream.ok());
  EXPECT_EQ(stream.status().code(), StatusCode::kInvalidArgument);
  return stream.status().message();
}

TEST(StructuredOutputsTest, EveryKindGivesWhatItAsksFor) {
  const std::unique_ptr<Engine> engine = MakeEngine(TinyOptions());
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const auto generate = [&](const SamplingParams& params) {
      return MustGenerate(engine->Generate(RandomPrompt(9), params));
    };
    const CompletionOutput choice =
        generate(WithChoice(Sampled(40, seed), {"yes", "no \"x\"", "\xC3\xA9"}));
    EXPECT_THAT(choice.text, AnyOf("yes", "no \"x\"", "\xC3\xA9"));
    EXPECT_EQ(choice.finish_reason, FinishReason::kStop);
    EXPECT_EQ(choice.token_ids.back(), kTinyEnd);

    const CompletionOutput regex = generate(WithRegex(Sampled(40, seed), "[a-c]{2,4}-\\d\\d"));
    EXPECT_TRUE(std::regex_match(regex.text, std::regex("[a-c]{2,4}-\\d\\d"))) << regex.text;

    SamplingParams params = Sampled(60, seed);
    params.structured_outputs.emplace().grammar = "root ::= \"<\" item{1,3} \">\"\nitem ::= [xy]";
    EXPECT_TRUE(std::regex_match(generate(params).text, std::regex("<[xy]{1,3}>")));

    const CompletionOutput json =
        generate(WithSchema(Sampled(200, seed), R"({"enum":[{"a":[1,null]},"b"]})"));
    EXPECT_THAT(json.text, AnyOf(R"({"a":[1,null]})", R"("b")"));
  }
}

TEST(StructuredOutputsTest, AnOutputCutShortIsTheBeginningOfOne) {
  const std::unique_ptr<Engine> engine = MakeEngine(TinyOptions());
  SamplingParams params = Sampled(1);
  params.structured_outputs.emplace().json_object = true;
  const CompletionOutput output = MustGenerate(engine->Generate(RandomPrompt(9), params));
  EXPECT_EQ(output.text, "{");
  EXPECT_EQ(output.finish_reason, FinishReason::kLength);
}

TEST(StructuredOutputsTest, ReportsTheRawLogProbabilities) {
  const std::unique_ptr<Engine> engine = MakeEngine(TinyOptions());
  SamplingParams all = Greedy(1);
  all.logprobs = -1;
  const CompletionOutput free = MustGenerate(engine->Generate(RandomPrompt(9), all));
  const CompletionOutput held =
      MustGenerate(engine->Generate(RandomPrompt(9), WithChoice(all, {"q"})));
  ASSERT_EQ(held.text, "q");
  EXPECT_EQ(BitsOf(held.logprobs), [&] {
    std::vector<TokenLogprobs> expected = free.logprobs;
    const auto& top = expected.front().top;
    expected.front().chosen =
        *std::ranges::find(top, held.token_ids.front(), &TokenLogprob::token_id);
    return BitsOf(expected);
  }());
}

std::vector<Request> MixedRequests() {
  std::vector<Request> requests;
  const std::vector<TokenId> shared = RandomPrompt(20);
  requests.push_back(RequestOf(shared, WithRegex(Sampled(30), "([ab]c?){30}")));
  requests.push_back(RequestOf(RandomPrompt(14, 2), Sampled(30)));
  requests.push_back(RequestOf(shared, WithChoice(Sampled(30), {"aaaaaaaaaaaaaaaaaaaaaaaa", "b"})));
  requests.push_back(
      RequestOf(RandomPrompt(12, 3),
                WithSchema(Sampled(30), R"({"type":"array","items":{"type":"integer"}})")));
  return requests;
}

std::vector<std::vector<uint32_t>> BitsTogether(Engine& engine, int32_t* num_preemptions) {
  std::vector<std::unique_ptr<RequestStream>> streams;
  for (Request& request : MixedRequests()) streams.push_back(*engine.Submit(std::move(request)));
  std::vector<std::vector<uint32_t>> bits;
  for (const auto& stream : streams) {
    const RequestOutput output = stream->Finish();
    *num_preemptions += output.num_preemptions;
    bits.push_back(BitsOf(output.outputs.front().logprobs));
  }
  return bits;
}

TEST(StructuredOutputsTest, TheBitsAreTheSameAloneTogetherWarmAndPreempted) {
  std::vector<std::vector<uint32_t>> alone;
  for (const Request& request : MixedRequests()) {
    alone.push_back(BitsAlone(request.prompt_token_ids, request.params));
  }
  int32_t num_preemptions = 0;
  const std::unique_ptr<Engine> engine = MakeEngine(TinyOptions());
  EXPECT_EQ(BitsTogether(*engine, &num_preemptions), alone);
  EXPECT_EQ(num_preemptions, 0);
  EXPECT_EQ(BitsTogether(*engine, &num_preemptions), alone);  // its prompts are cached now
  EXPECT_GT(engine->stats().num_cached_tokens, 0u);

  for (const int64_t swap_bytes : {int64_t{0}, int64_t{1} << 20}) {
    EngineOptions options = TinyOptions();
    options.model.max_model_len = 64;
    options.cache.kv_cache_memory_bytes = 64 * 1024;  // one context: 4 blocks
    options.cache.swap_space_bytes = swap_bytes;
    options.scheduler.check_integrity = true;
    const std::unique_ptr<Engine> small = MakeEngine(options);
    num_preemptions = 0;
    for (int round = 0; num_preemptions == 0 && round < kRoundsToMeet; ++round) {
      EXPECT_EQ(BitsTogether(*small, &num_preemptions), alone);
    }
    EXPECT_GT(num_preemptions, 0);
    ExpectSound(*small);
  }
}

TEST(StructuredOutputsTest, EveryCompletionFollowsTheGrammarByItself) {
  const std::unique_ptr<Engine> engine = MakeEngine(TinyOptions());
  SamplingParams params = WithRegex(Sampled(30), "[a-z]{3,20}!");
  params.n = 3;
  const Result<RequestOutput> result = engine->Generate(RandomPrompt(18), params);
  ASSERT_TRUE(result.ok()) << result.status().message();
  for (const CompletionOutput& output : result->outputs) {
    EXPECT_TRUE(std::regex_match(output.text, std::regex("[a-z]{3,20}!"))) << output.text;
  }
  EXPECT_NE(result->outputs[0].text, result->outputs[1].text);
  params.n = 1;
  EXPECT_EQ(MustGenerate(engine->Generate(RandomPrompt(18), params)).token_ids,
            result->outputs[0].token_ids);
}

TEST(StructuredOutputsTest, AClassAfterARepeatHoldsWhateverTheTokensSpan) {
  const std::unique_ptr<Engine> engine = MakeEngine(TinyOptions());
  SamplingParams params = WithRegex(Sampled(12), "t{2}[^a-t]V");
  params.temperature = 2.0f;
  params.n = 64;
  const Result<RequestOutput> result = engine->Generate(RandomPrompt(18), params);
  ASSERT_TRUE(result.ok()) << result.status().message();
  for (const CompletionOutput& output : result->outputs) {
    EXPECT_EQ(output.finish_reason, FinishReason::kStop);
    EXPECT_EQ(output.text.substr(0, 2), "tt");
    EXPECT_EQ(output.text.back(), 'V');
  }
  ExpectSound(*engine);
}

TEST(StructuredOutputsTest, AWholeOutputEndsWhereTheEndMayNotBeChosen) {
  const std::unique_ptr<Engine> engine = MakeEngine(TinyOptions());
  for (const bool ignores_eos : {true, false}) {
    SamplingParams params = WithChoice(Sampled(40), {"ab"});
    params.ignore_eos = ignores_eos;
    params.min_tokens = ignores_eos ? 0 : 20;
    const CompletionOutput output = MustGenerate(engine->Generate(RandomPrompt(9), params));
    EXPECT_EQ(output.text, "ab");
    EXPECT_EQ(output.finish_reason, FinishReason::kStop);
    EXPECT_NE(output.token_ids.back(), kTinyEnd);
    EXPECT_EQ(output.logprobs.size(), output.token_ids.size());
  }
  // Where more may follow, the output goes on.
  SamplingParams params = WithRegex(Sampled(25), "a+");
  params.ignore_eos = true;
  const CompletionOutput longer = MustGenerate(engine->Generate(RandomPrompt(9), params));
  EXPECT_EQ(longer.finish_reason, FinishReason::kLength);
  EXPECT_EQ(longer.token_ids.size(), 25u);
}

TEST(StructuredOutputsTest, WhatCannotBeMetIsRefusedOrEndsWithAnError) {
  const std::unique_ptr<Engine> engine = MakeEngine(TinyOptions());
  const std::vector<TokenId> prompt = RandomPrompt(9);
  EXPECT_THAT(RefusalOf(*engine, RequestOf(prompt, WithRegex(Sampled(5), "(?=a)"))),
              HasSubstr("look-ahead"));
  EXPECT_THAT(RefusalOf(*engine, RequestOf(prompt, WithSchema(Sampled(5), R"({"$ref":"#"})"))),
              HasSubstr("leads back to itself"));
  Request beams = RequestOf(prompt, WithChoice({}, {"a"}));
  beams.beam_search.emplace();
  EXPECT_THAT(RefusalOf(*engine, beams), HasSubstr("beam search"));

  SamplingParams params = WithRegex(Sampled(5), "b");
  params.allowed_token_ids = {3 + 'a'};  // the byte token
  EXPECT_THAT(RefusalOf(*engine, RequestOf(prompt, params)), HasSubstr("allowed_token_ids"));
  params = WithRegex(Sampled(5), "ab");
  params.allowed_token_ids = {3 + 'a'};
  const CompletionOutput output = MustGenerate(engine->Generate(prompt, params));
  EXPECT_EQ(output.text, "a");
  EXPECT_EQ(output.finish_reason, FinishReason::kError);
  EXPECT_EQ(MustGenerate(engine->Generate(prompt, WithChoice(Sampled(9), {"ok"}))).text, "ok");
  ExpectSound(*engine);
}

class DefaultModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    EngineOptions options;
    options.model.path = text::testing::DefaultModelPath();
    options.model.max_model_len = 512;
    if (options.model.path.empty()) GTEST_SKIP() << "the default model is not on this machine";
    engine_ = MakeEngine(options);
  }

  CompletionOutput Ask(const std::string& question, const SamplingParams& params) {
    const Result<std::vector<TokenId>> prompt = engine_->ApplyChatTemplate({{"user", question}});
    EXPECT_TRUE(prompt.ok()) << prompt.status().message();
    return MustGenerate(engine_->Generate(*prompt, params));
  }

  std::unique_ptr<Engine> engine_;
};

TEST_F(DefaultModelTest, StructuredOutputsGiveWhatTheyAskFor) {
  SamplingParams params = Greedy(80);
  params.ignore_eos = false;
  EXPECT_THAT(Ask("Is the sky blue?", WithChoice(params, {"Yes", "No"})).text, AnyOf("Yes", "No"));
  const std::string phone = Ask("Tell me a phone number.", WithRegex(params, "\\d{3}-\\d{4}")).text;
  EXPECT_TRUE(std::regex_match(phone, std::regex("\\d{3}-\\d{4}"))) << phone;

  const CompletionOutput output =
      Ask("Describe a person named Ann, 30 years old, as JSON.",
          WithSchema(params, R"({"type":"object","properties":{"name":{"type":"string",
              "maxLength":20},"age":{"type":"integer","minimum":0,"maximum":150}},
              "required":["name","age"]})"));
  ASSERT_EQ(output.finish_reason, FinishReason::kStop) << output.text;
  const boost::json::value value = boost::json::parse(output.text);
  EXPECT_EQ(value.as_object().size(), 2u);
  EXPECT_TRUE(value.at("name").is_string());
  EXPECT_LE(value.at("age").as_int64(), 150);
}

}  // namespace
}  // namespace octavo::engine
