// Request traces: what a line means, and what is refused.

#include "bench/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

namespace octavo::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ErrorOf(const std::string& text) {
  const Result<Trace> trace = ParseTrace("a.jsonl", text);
  return trace.ok() ? "no error" : trace.status().message();
}

std::vector<int32_t> TokensOf(const TraceRequest& request) {
  std::vector<int32_t> tokens;
  MakeTokens(request, &tokens);
  return tokens;
}

TEST(ParseTraceTest, ALineIsARequest) {
  const Result<Trace> trace = ParseTrace(
      "a.jsonl",
      R"({"timestamp": 7, "input_length": 600, "output_length": 3, "hash_ids": [40, 9], "x": 1})");

  ASSERT_TRUE(trace.ok()) << trace.status().message();
  ASSERT_EQ(trace->requests.size(), 1u);
  const TraceRequest& request = trace->requests[0];
  EXPECT_EQ(request.arrival_ms, 7);
  EXPECT_EQ(request.num_prompt_tokens, 600);
  EXPECT_EQ(request.num_output_tokens, 3);
  EXPECT_THAT(request.content, ElementsAre(1, 0));  // the ranks of 40 and 9
  EXPECT_EQ(trace->num_contents, 2);
  EXPECT_EQ(trace->num_prompt_tokens, 600);
  EXPECT_EQ(trace->num_output_tokens, 3);
  EXPECT_EQ(trace->max_request_tokens, 603);
}

TEST(ParseTraceTest, RequestsComeInTheOrderOfTheirArrivalAndEqualOnesInThatOfTheFile) {
  const Result<Trace> trace = ParseTrace("a.jsonl", R"(
{"timestamp": 9, "input_length": 1, "output_length": 0, "hash_ids": [1]}
{"timestamp": 5, "input_length": 2, "output_length": 0, "hash_ids": [1]}

{"timestamp": 9, "input_length": 3, "output_length": 0, "hash_ids": [1]}
)");

  ASSERT_TRUE(trace.ok()) << trace.status().message();
  std::vector<int32_t> lengths;
  for (const TraceRequest& request : trace->requests) lengths.push_back(request.num_prompt_tokens);
  EXPECT_THAT(lengths, ElementsAre(2, 1, 3));
}

TEST(MakeTokensTest, EqualIdsAreEqualTokensAndAllElseDiffers) {
  const Result<Trace> trace = ParseTrace("a.jsonl", R"(
{"timestamp": 0, "input_length": 1024, "output_length": 2, "hash_ids": [5, 77]}
{"timestamp": 1, "input_length": 700, "output_length": 2, "hash_ids": [5, 6]}
)");
  ASSERT_TRUE(trace.ok()) << trace.status().message();
  const std::vector<int32_t> first = TokensOf(trace->requests[0]);
  const std::vector<int32_t> second = TokensOf(trace->requests[1]);

  ASSERT_EQ(first.size(), 1026u);
  ASSERT_EQ(second.size(), 702u);
  EXPECT_TRUE(std::equal(first.begin(), first.begin() + 512, second.begin()));
  std::vector<int32_t> others(first);
  others.insert(others.end(), second.begin() + 512, second.end());
  std::sort(others.begin(), others.end());
  EXPECT_EQ(std::adjacent_find(others.begin(), others.end()), others.end());
  EXPECT_GE(others.front(), 0);
}

TEST(ParseTraceTest, TheExcerptHasTheFiguresThatWereCountedByOtherMeans) {
  std::ifstream file(OCTAVO_SOURCE_DIR "/tests/golden/traces/mooncake-conversation-50.jsonl");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const Result<Trace> trace = ParseTrace("excerpt", text);

  ASSERT_TRUE(trace.ok()) << trace.status().message();
  EXPECT_EQ(trace->requests.size(), 50u);
  EXPECT_EQ(trace->num_prompt_tokens, 204823);
  EXPECT_EQ(trace->num_output_tokens, 21623);
  EXPECT_EQ(trace->num_contents, 134);
  EXPECT_EQ(trace->max_request_tokens, 8775);
}

TEST(ParseTraceTest, AnErrorNamesLineFieldValueAndLimit) {
  const std::string good =
      R"({"timestamp": 0, "input_length": 1, "output_length": 0, "hash_ids": [1]})"
      "\n";
  EXPECT_THAT(ErrorOf(good + "{"), HasSubstr("a.jsonl: line 2 is not JSON"));
  EXPECT_THAT(ErrorOf("[1]"), HasSubstr("line 1 is not a JSON object"));
  EXPECT_THAT(ErrorOf(R"({"input_length": 1, "output_length": 0, "hash_ids": [1]})"),
              HasSubstr("has no timestamp"));
  EXPECT_THAT(
      ErrorOf(R"({"timestamp": -1, "input_length": 1, "output_length": 0, "hash_ids": [1]})"),
      HasSubstr("has -1 in timestamp, but it must be a whole number from 0 to 9007199254740992"));
  EXPECT_THAT(ErrorOf(R"({"timestamp": 0, "input_length": 0, "output_length": 0, "hash_ids": []})"),
              HasSubstr("has 0 in input_length, but it must be a whole number from 1 to 16777216"));
  EXPECT_THAT(
      ErrorOf(R"({"timestamp": 0, "input_length": 1, "output_length": 16777217, "hash_ids": [1]})"),
      HasSubstr("has 16777217 in output_length"));
  EXPECT_THAT(
      ErrorOf(R"({"timestamp": 0, "input_length": 1.5, "output_length": 0, "hash_ids": [1]})"),
      HasSubstr("1.5E0 in input_length"));
  EXPECT_THAT(
      ErrorOf(R"({"timestamp": 0, "input_length": 513, "output_length": 0, "hash_ids": [1]})"),
      HasSubstr("has 1 hash_ids, but an input_length of 513 has 2 blocks of 512"));
  EXPECT_THAT(ErrorOf(R"({"timestamp": 0, "input_length": 1, "output_length": 0, "hash_ids": 3})"),
              HasSubstr("has no array in hash_ids, but 3"));
  EXPECT_THAT(
      ErrorOf(R"({"timestamp": 0, "input_length": 1, "output_length": 0, "hash_ids": ["x"]})"),
      HasSubstr(R"(has "x" in hash_ids)"));
  EXPECT_THAT(ErrorOf(R"({"timestamp": 0, "input_length": 1, "output_length": 0,)"
                      R"( "hash_ids": [9223372036854775808]})"),
              HasSubstr("has 9223372036854775808 in hash_ids"));
  EXPECT_THAT(ErrorOf(" \n\t\n"), HasSubstr("a.jsonl: the trace has no request"));
  EXPECT_THAT(ErrorOf(std::string((1 << 24) + 1, 'x')),
              HasSubstr("line 1 is 16777217 bytes long, limit 16777216"));
}

TEST(ParseTraceTest, MoreTokensThanThereAreNumbersAreRefused) {
  std::string text;
  for (int i = 0; i < 128; ++i) {
    text += R"({"timestamp": 0, "input_length": 1, "output_length": 16777216, "hash_ids": [1]})";
    text += "\n";
  }
  EXPECT_THAT(ErrorOf(text), HasSubstr("limit 2147483647 tokens"));
}

TEST(ParseTraceTest, DeepNestingIsRefused) {
  EXPECT_THAT(ErrorOf(std::string(100000, '[')), HasSubstr("line 1 is not JSON"));
}

TEST(ParseTraceTest, SpoiledBytesGiveATraceOrAnErrorOfOneLine) {
  std::ifstream file(OCTAVO_SOURCE_DIR "/tests/golden/traces/mooncake-conversation-50.jsonl");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  ASSERT_FALSE(text.empty());
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);

  for (int round = 0; round < 300; ++round) {
    std::string spoiled = text;
    for (uint32_t i = 0; i <= random() % 4; ++i) {
      spoiled[random() % spoiled.size()] = static_cast<char>(random());
    }
    const Result<Trace> trace = ParseTrace("a.jsonl", spoiled);
    if (trace.ok()) {
      EXPECT_LE(trace->requests.size(), 52u);
    } else {
      EXPECT_THAT(trace.status().message(), HasSubstr("a.jsonl: line "));
    }
  }
}

}  // namespace
}  // namespace octavo::bench
