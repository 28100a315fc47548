#include "octavo/sampling_params.h"

#include <gtest/gtest.h>

#include <limits>

#include "octavo/request_output.h"

namespace octavo {
namespace {

constexpr int32_t kVocabSize = 100;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The message of Validate after `change` to the defaults; empty if they are accepted.
template <typename Change>
std::string MessageAfter(Change change, int32_t vocab_size = kVocabSize) {
  SamplingParams params;
  change(params);
  const Status status = params.Validate(vocab_size);
  EXPECT_EQ(status.code(), status.ok() ? StatusCode::kOk : StatusCode::kInvalidArgument);
  return status.message();
}

TEST(SamplingParamsTest, AcceptsTheDefaults) {
  EXPECT_EQ(MessageAfter([](SamplingParams&) {}), "");
}

TEST(SamplingParamsTest, AcceptsTheEndsOfEveryRange) {
  EXPECT_EQ(MessageAfter([](SamplingParams& p) {
              p.temperature = 0.0f;
              p.top_p = 1e-6f;
              p.top_k = -1;
              p.repetition_penalty = 1e-3f;
              p.presence_penalty = p.frequency_penalty = -2.0f;
              p.logit_bias = {{0, -100.0f}, {99, 100.0f}};
              p.allowed_token_ids = p.stop_token_ids = {0, 99};
              p.stop.assign(64, "x");
              p.max_tokens = p.min_tokens = 1;
              p.logprobs = p.prompt_logprobs = -1;
            }),
            "");
  EXPECT_EQ(MessageAfter([](SamplingParams& p) {
              p.temperature = 100.0f;
              p.top_k = std::numeric_limits<int32_t>::max();
              p.min_p = 1.0f;
              p.repetition_penalty = 100.0f;
              p.presence_penalty = p.frequency_penalty = 2.0f;
              p.max_tokens = std::numeric_limits<int32_t>::max();
              p.logprobs = p.prompt_logprobs = kVocabSize;
            }),
            "");
  EXPECT_EQ(MessageAfter([](SamplingParams& p) {
              p.max_tokens.reset();
              p.min_tokens = std::numeric_limits<int32_t>::max();
            }),
            "");
}

TEST(SamplingParamsTest, StopsAreBoundedInNumberAndLength) {
  EXPECT_EQ(MessageAfter([](SamplingParams& p) { p.stop = {std::string(4096, 'x')}; }), "");
  EXPECT_EQ(MessageAfter([](SamplingParams& p) { p.stop = {std::string(4097, 'x')}; }),
            "stop[0] has 4097 bytes, but must have at most 4096");
  EXPECT_EQ(MessageAfter([](SamplingParams& p) { p.stop_token_ids.assign(1024, 0); }), "");
  EXPECT_EQ(MessageAfter([](SamplingParams& p) { p.stop_token_ids.assign(1025, 0); }),
            "stop_token_ids holds 1025 ids, but must hold at most 1024");
}

TEST(SamplingParamsTest, NamesTheNumberThatIsOutOfItsRange) {
  using P = SamplingParams;
  EXPECT_EQ(MessageAfter([](P& p) { p.temperature = -1.0f; }),
            "temperature is -1, but must be in [0, 100]");
  EXPECT_EQ(MessageAfter([](P& p) { p.temperature = 100.5f; }),
            "temperature is 100.5, but must be in [0, 100]");
  EXPECT_EQ(MessageAfter([](P& p) { p.top_p = 0.0f; }), "top_p is 0, but must be in (0, 1]");
  EXPECT_EQ(MessageAfter([](P& p) { p.top_p = 1.5f; }), "top_p is 1.5, but must be in (0, 1]");
  EXPECT_EQ(MessageAfter([](P& p) { p.top_k = -5; }),
            "top_k is -5, but must be 0 or -1 (off) or at least 1");
  EXPECT_EQ(MessageAfter([](P& p) { p.min_p = -0.5f; }), "min_p is -0.5, but must be in [0, 1]");
  EXPECT_EQ(MessageAfter([](P& p) { p.repetition_penalty = 0.0f; }),
            "repetition_penalty is 0, but must be in (0, 100]");
  EXPECT_EQ(MessageAfter([](P& p) { p.presence_penalty = 2.5f; }),
            "presence_penalty is 2.5, but must be in [-2, 2]");
  EXPECT_EQ(MessageAfter([](P& p) { p.frequency_penalty = -2.5f; }),
            "frequency_penalty is -2.5, but must be in [-2, 2]");
  EXPECT_EQ(MessageAfter([](P& p) { p.max_tokens = 0; }),
            "max_tokens is 0, but must be at least 1");
  EXPECT_EQ(MessageAfter([](P& p) { p.max_tokens = -736; }),
            "max_tokens is -736, but must be at least 1");
  EXPECT_EQ(MessageAfter([](P& p) { p.min_tokens = -1; }),
            "min_tokens is -1, but must be at least 0");
  EXPECT_EQ(MessageAfter([](P& p) { p.min_tokens = 17; }),
            "min_tokens is 17, but must be at most max_tokens, 16");
  EXPECT_EQ(MessageAfter([](P& p) { p.logprobs = -2; }),
            "logprobs is -2, but must be in [-1, 100]");
  EXPECT_EQ(MessageAfter([](P& p) { p.prompt_logprobs = 101; }),
            "prompt_logprobs is 101, but must be in [-1, 100]");
}

TEST(SamplingParamsTest, RefusesNanAndInfinityInEveryFloat) {
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    using P = SamplingParams;
    EXPECT_NE(MessageAfter([bad](P& p) { p.temperature = bad; }), "");
    EXPECT_NE(MessageAfter([bad](P& p) { p.top_p = bad; }), "");
    EXPECT_NE(MessageAfter([bad](P& p) { p.min_p = bad; }), "");
    EXPECT_NE(MessageAfter([bad](P& p) { p.repetition_penalty = bad; }), "");
    EXPECT_NE(MessageAfter([bad](P& p) { p.presence_penalty = bad; }), "");
    EXPECT_NE(MessageAfter([bad](P& p) { p.frequency_penalty = bad; }), "");
    EXPECT_NE(MessageAfter([bad](P& p) { p.logit_bias = {{1, bad}}; }), "");
  }
  EXPECT_EQ(MessageAfter([](SamplingParams& p) { p.temperature = kNan; }),
            "temperature is nan, but must be in [0, 100]");
}

TEST(SamplingParamsTest, RefusesTokenIdsOutsideTheVocabulary) {
  using P = SamplingParams;
  EXPECT_EQ(MessageAfter([](P& p) {
              p.logit_bias = {{100, 1.0f}};
            }),
            "logit_bias holds token id 100, but must be in [0, 99]");
  EXPECT_EQ(MessageAfter([](P& p) {
              p.allowed_token_ids = {1, -1};
            }),
            "allowed_token_ids holds token id -1, but must be in [0, 99]");
  EXPECT_EQ(MessageAfter([](P& p) {
              p.stop_token_ids = {1, 1000};
            }),
            "stop_token_ids holds token id 1000, but must be in [0, 99]");
}

TEST(SamplingParamsTest, LeavesUpperEndsOpenWithoutAVocabulary) {
  using P = SamplingParams;
  EXPECT_EQ(MessageAfter([](P& p) { p.stop_token_ids = {1000000}; }, 0), "");
  EXPECT_EQ(MessageAfter([](P& p) { p.logprobs = 1000000; }, 0), "");
  EXPECT_EQ(MessageAfter([](P& p) { p.stop_token_ids = {-1}; }, 0),
            "stop_token_ids holds token id -1, but must be at least 0");
  EXPECT_EQ(MessageAfter([](P& p) { p.logprobs = -2; }, 0),
            "logprobs is -2, but must be at least -1");
}

TEST(SamplingParamsTest, RefusesABiasOutOfItsRangeAndATokenThatIsNamedTwice) {
  using P = SamplingParams;
  EXPECT_EQ(MessageAfter([](P& p) {
              p.logit_bias = {{7, 101.0f}};
            }),
            "logit_bias of token id 7 is 101, but must be in [-100, 100]");
  EXPECT_EQ(MessageAfter([](P& p) {
              p.logit_bias = {{7, 1.0f}, {3, 1.0f}, {7, 1.0f}};
            }),
            "logit_bias holds token id 7 more than once, but must name each once");
}

TEST(SamplingParamsTest, RefusesStopStringsThatCannotMatch) {
  using P = SamplingParams;
  EXPECT_EQ(MessageAfter([](P& p) { p.stop.assign(65, "x"); }),
            "stop holds 65 strings, but must hold at most 64");
  EXPECT_EQ(MessageAfter([](P& p) { p.stop = {"a", ""}; }), "stop[1] is empty, but must not be");
  EXPECT_EQ(MessageAfter([](P& p) {
              p.stop = {"a"};
              p.detokenize = false;
            }),
            "stop holds 1 strings, but must be empty when detokenize is false");
}

TEST(SamplingParamsTest, RefusesStopStringsThatAreNotUtf8) {
  for (const char* bad :
       {"\x80", "a\xC3", "\xC0\xAF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xE2\x82", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82x"}) {
    EXPECT_EQ(MessageAfter([bad](SamplingParams& p) {
                p.stop = {"ok", bad};
              }),
              "stop[1] is not UTF-8, but must be")
        << testing::PrintToString(std::string(bad));
  }
  for (const char* good : {"\x7F", "\xC2\x80", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
                           "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF", "caf\xC3\xA9"}) {
    EXPECT_EQ(MessageAfter([good](SamplingParams& p) { p.stop = {good}; }), "");
  }
}

TEST(FinishReasonTest, NamesAreThoseOfTheApi) {
  EXPECT_EQ(FinishReasonName(FinishReason::kNone), "");
  EXPECT_EQ(FinishReasonName(FinishReason::kStop), "stop");
  EXPECT_EQ(FinishReasonName(FinishReason::kLength), "length");
  EXPECT_EQ(FinishReasonName(FinishReason::kAbort), "abort");
  EXPECT_EQ(FinishReasonName(FinishReason::kError), "error");
}

}  // namespace
}  // namespace octavo
