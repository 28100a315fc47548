// Faults that users of such engines have reported in public, as replays on the real model. The
// letter and number name the case; each test says what went wrong elsewhere.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <string>
#include <vector>

#include "octavo/engine.h"
#include "support/test_model.h"

namespace octavo::testing {
namespace {

// A prompt of exactly `count` token ids, which no tokenizer has made.
std::vector<TokenId> Prompt(int32_t count, TokenId first = 1000) {
  std::vector<TokenId> tokens(static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) tokens[static_cast<size_t>(i)] = first + i;
  return tokens;
}

SamplingParams Greedy(int32_t max_tokens) {
  SamplingParams params;
  params.temperature = 0.0f;
  params.max_tokens = max_tokens;
  params.ignore_eos = true;
  params.logprobs = 1;
  return params;
}

std::vector<uint32_t> BitsOf(const CompletionOutput& output) {
  std::vector<uint32_t> bits;
  for (const TokenLogprobs& token : output.logprobs) {
    bits.push_back(static_cast<uint32_t>(token.chosen.token_id));
    bits.push_back(std::bit_cast<uint32_t>(token.chosen.logprob));
  }
  return bits;
}

class PublicCasesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!DefaultModelPath()) GTEST_SKIP() << "the default model is absent: run scripts/fetch-model";
    EngineOptions options;
    options.model.path = *DefaultModelPath();
    options.model.max_model_len = 1024;
    options.scheduler.check_integrity = true;
    engine_ = *Engine::Create(options);
    options.cache.enable_prefix_caching = false;
    twin_ = *Engine::Create(options);
  }
  void TearDown() override {
    if (!engine_) return;
    const Status sound = engine_->CheckIntegrity();
    EXPECT_TRUE(sound.ok()) << sound.message();
    EXPECT_EQ(engine_->stats().cache.num_blocks_in_use, 0u);
  }

  RequestOutput Run(const std::vector<TokenId>& prompt, const SamplingParams& params) {
    Result<RequestOutput> output = engine_->Generate(prompt, params);
    EXPECT_TRUE(output.ok()) << output.status().message();
    return output.ok() ? *std::move(output) : RequestOutput();
  }
  // The same on an engine without a prefix cache.
  std::vector<uint32_t> TwinBits(const std::vector<TokenId>& prompt, const SamplingParams& params) {
    return BitsOf(twin_->Generate(prompt, params)->outputs.front());
  }

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Engine> twin_;
};

// The first answer differed from all later ones, which found their prompt in the cache.
TEST_F(PublicCasesTest, A1TheColdAnswerAndEveryWarmOneAreTheSame) {
  for (const int32_t length : {15, 16, 17, 31, 32, 33, 64, 65}) {
    const std::vector<TokenId> prompt = Prompt(length, 1000 + 100 * length);
    const std::vector<uint32_t> expected = TwinBits(prompt, Greedy(24));
    for (int round = 0; round < 5; ++round) {
      const RequestOutput output = Run(prompt, Greedy(24));
      EXPECT_EQ(BitsOf(output.outputs.front()), expected) << length << " tokens, round " << round;
      EXPECT_EQ(output.num_cached_tokens, round == 0 ? 0 : length - 1);
    }
  }
}

// A prompt that is the beginning of a cached one was answered from the logits of the longer one.
TEST_F(PublicCasesTest, A3EveryTruncationOfACachedPromptIsAnsweredAsOnANewEngine) {
  const std::vector<TokenId> whole = *engine_->Tokenize("Here is a joke. Z Z Z Z Z Z Z Z");
  Run(whole, Greedy(1));
  for (size_t length = 1; length <= whole.size(); ++length) {
    const std::vector<TokenId> prompt(whole.begin(),
                                      whole.begin() + static_cast<std::ptrdiff_t>(length));
    const RequestOutput output = Run(prompt, Greedy(8));
    EXPECT_EQ(BitsOf(output.outputs.front()), TwinBits(prompt, Greedy(8))) << length << " tokens";
    EXPECT_EQ(output.num_cached_tokens, static_cast<int32_t>(length) - 1);
  }
}

// Penalties saw only the part of the prompt that was computed.
TEST_F(PublicCasesTest, A5PenaltiesSeeTheCachedPartOfThePromptToo) {
  SamplingParams params = Greedy(24);
  params.repetition_penalty = 1.3f;
  const std::vector<TokenId> prompt = Prompt(40, 3000);
  const std::vector<uint32_t> expected = TwinBits(prompt, params);

  EXPECT_EQ(BitsOf(Run(prompt, params).outputs.front()), expected);
  const RequestOutput warm = Run(prompt, params);
  EXPECT_EQ(warm.num_cached_tokens, 39);
  EXPECT_EQ(BitsOf(warm.outputs.front()), expected);
  engine_->ResetPrefixCache();
  Run(Prompt(20, 3000), Greedy(1));
  const RequestOutput half = Run(prompt, params);
  EXPECT_EQ(half.num_cached_tokens, 20);
  EXPECT_EQ(BitsOf(half.outputs.front()), expected);
}

// Prompts whose hashes collide, for polynomial and for order-blind hashes, shared a block.
TEST_F(PublicCasesTest, B1PromptsWhoseHashesCollideShareOnlyWhatTheyHaveInCommon) {
  std::vector<TokenId> original = Prompt(16, 2000);
  original.push_back(7);
  struct Twin {
    std::vector<std::pair<size_t, TokenId>> changes;
    int32_t common;
  };
  const Twin twins[] = {{{{4, 31}, {5, -1}}, 4}, {{{4, 1}, {5, -31}}, 4}, {{{2, 1}, {3, -1}}, 2}};
  for (const Twin& twin : twins) {
    engine_->ResetPrefixCache();
    Run(original, Greedy(4));
    std::vector<TokenId> other = original;
    for (const auto& [place, change] : twin.changes) other[place] += change;
    const RequestOutput output = Run(other, Greedy(8));
    EXPECT_EQ(output.num_cached_tokens, twin.common);
    EXPECT_EQ(BitsOf(output.outputs.front()), TwinBits(other, Greedy(8)));
  }
}

// With several completions, the second took the first one's end, or its text.
TEST_F(PublicCasesTest, G1EveryCompletionHasItsOwnIndexTextAndEnd) {
  SamplingParams params = Greedy(40);
  params.temperature = 1.0f;
  params.seed = 11;
  params.n = 3;
  params.stop = {".", ","};
  const std::vector<TokenId> prompt = *engine_->Tokenize("The weather today");
  std::vector<std::string> streamed(3);
  std::vector<FinishReason> ends(3, FinishReason::kNone);
  const Result<RequestOutput> output =
      engine_->Generate(prompt, params, [&](const RequestDelta& delta) {
        streamed[static_cast<size_t>(delta.index)] += delta.text;
        ends[static_cast<size_t>(delta.index)] = delta.finish_reason;
        return true;
      });
  ASSERT_TRUE(output.ok());
  ASSERT_EQ(output->outputs.size(), 3u);
  EXPECT_EQ(output->prompt_token_ids, prompt);
  for (size_t i = 0; i < 3; ++i) {
    const CompletionOutput& completion = output->outputs[i];
    EXPECT_EQ(completion.index, static_cast<int32_t>(i));
    EXPECT_EQ(streamed[i], completion.text);
    EXPECT_EQ(ends[i], completion.finish_reason);
    EXPECT_EQ(completion.finish_reason == FinishReason::kLength,
              completion.token_ids.size() == 40u);
    EXPECT_EQ(completion.logprobs.size(), completion.token_ids.size());
  }
}

// Text decoded token by token lost spaces that decoding the whole kept.
TEST_F(PublicCasesTest, J3SpacesSurviveTheRoundTripAndTheStream) {
  for (const std::string& text :
       {std::string("a    b"), std::string(" leading x"), std::string("  two"),
        std::string("\n\n  code"), std::string("tab\tx"), std::string(40, ' ') + "x"}) {
    const std::vector<TokenId> tokens = *engine_->Tokenize(text);
    EXPECT_EQ(*engine_->Detokenize(tokens), text);
    // The model is made to say exactly these tokens, one step at a time.
    std::string streamed;
    std::vector<TokenId> prompt = *engine_->Tokenize("Say: ");
    for (const TokenId token : tokens) {
      SamplingParams params = Greedy(1);
      params.allowed_token_ids = {token};
      const Result<RequestOutput> step =
          engine_->Generate(prompt, params, [&streamed](const RequestDelta& delta) {
            streamed += delta.text;
            return true;
          });
      ASSERT_TRUE(step.ok());
      prompt.push_back(token);
    }
    EXPECT_EQ(streamed, text);
  }
}

// A tiny temperature made the scaled logits overflow.
TEST_F(PublicCasesTest, O1TinyTemperaturesAreGreedy) {
  const std::vector<TokenId> prompt = Prompt(10, 5000);
  const std::vector<uint32_t> greedy = TwinBits(prompt, Greedy(12));
  for (const double temperature : {1e-4, 1e-6, 1e-12, 1e-38, 1e-40, 1e-46}) {
    for (const float top_p : {1.0f, 0.9f}) {
      SamplingParams params = Greedy(12);
      params.temperature = static_cast<float>(temperature);
      params.top_p = top_p;
      params.seed = 3;
      EXPECT_EQ(BitsOf(Run(prompt, params).outputs.front()), greedy) << temperature;
    }
  }
}

// A greedy answer changed with what else was in the batch.
TEST_F(PublicCasesTest, N1AnAnswerDoesNotDependOnTheBatch) {
  const std::vector<TokenId> prompt = Prompt(30, 7000);
  const std::vector<uint32_t> alone = TwinBits(prompt, Greedy(24));
  for (const int32_t others : {1, 2, 3, 6, 15}) {
    std::vector<std::unique_ptr<RequestStream>> streams;
    for (int32_t i = 0; i <= others; ++i) {
      Request request;
      request.prompt_token_ids = i == others / 2 ? prompt : Prompt(5 + 13 * i, 9000 + 200 * i);
      request.params = Greedy(24 + i);
      if (i == others / 2) request.params = Greedy(24);
      streams.push_back(*engine_->Submit(std::move(request)));
    }
    for (int32_t i = 0; i <= others; ++i) {
      const RequestOutput output = streams[static_cast<size_t>(i)]->Finish();
      if (i != others / 2) continue;
      EXPECT_EQ(BitsOf(output.outputs.front()), alone) << others << " others";
    }
  }
}

}  // namespace
}  // namespace octavo::testing
