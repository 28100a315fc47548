// Compares with tests/golden/sampling/cases.txt, which tests/tools/make_sampling_golden.py makes:
// an independent reference of masks, bias, penalties (bit for bit), filters and draws (token ids).

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "engine/sampling/logits_processor.h"
#include "engine/sampling/sampler.h"
#include "engine/sampling/test_row_ops.h"

namespace octavo::engine {
namespace {

// One case: the words of each line after its name.
using GoldenCase = std::map<std::string, std::vector<std::string>>;

std::vector<GoldenCase> ReadCases(const std::string& path) {
  std::ifstream file(path);
  std::vector<GoldenCase> cases;
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name, word;
    words >> name;
    if (name == "case") cases.emplace_back();
    std::vector<std::string>& values = cases.back()[name];
    while (words >> word) values.push_back(word);
  }
  return cases;
}

float FloatOfBits(const std::string& hex) {
  return std::bit_cast<float>(static_cast<uint32_t>(std::stoul(hex, nullptr, 16)));
}

float FloatOr(const GoldenCase& golden, const std::string& name, float otherwise) {
  const auto found = golden.find(name);
  return found == golden.end() ? otherwise : FloatOfBits(found->second.front());
}

uint64_t IntOr(const GoldenCase& golden, const std::string& name, uint64_t otherwise) {
  const auto found = golden.find(name);
  return found == golden.end() ? otherwise : std::stoull(found->second.front());
}

std::vector<TokenId> TokenIds(const GoldenCase& golden, const std::string& name) {
  std::vector<TokenId> ids;
  if (const auto found = golden.find(name); found != golden.end()) {
    for (const std::string& word : found->second) ids.push_back(std::stoi(word));
  }
  return ids;
}

// The two halves of a word of the form INDEX:VALUE.
std::pair<int64_t, std::string> SplitPair(const std::string& word) {
  const size_t colon = word.find(':');
  return {std::stoll(word.substr(0, colon)), word.substr(colon + 1)};
}

SamplingParams ParamsOf(const GoldenCase& golden) {
  SamplingParams params;
  params.temperature = FloatOr(golden, "temperature", 1.0f);
  params.top_p = FloatOr(golden, "top_p", 1.0f);
  params.top_k = static_cast<int32_t>(IntOr(golden, "top_k", 0));
  params.min_p = FloatOr(golden, "min_p", 0.0f);
  params.repetition_penalty = FloatOr(golden, "repetition_penalty", 1.0f);
  params.presence_penalty = FloatOr(golden, "presence_penalty", 0.0f);
  params.frequency_penalty = FloatOr(golden, "frequency_penalty", 0.0f);
  params.min_tokens = static_cast<int32_t>(IntOr(golden, "min_tokens", 0));
  params.max_tokens.reset();
  params.allowed_token_ids = TokenIds(golden, "allowed_token_ids");
  params.stop_token_ids = TokenIds(golden, "stop_token_ids");
  if (const auto found = golden.find("logit_bias"); found != golden.end()) {
    for (const std::string& word : found->second) {
      const auto [token_id, bias] = SplitPair(word);
      params.logit_bias.emplace_back(static_cast<TokenId>(token_id), FloatOfBits(bias));
    }
  }
  return params;
}

std::vector<float> LogitsOf(const GoldenCase& golden) {
  std::vector<float> logits;
  for (const std::string& word : golden.at("logits")) logits.push_back(FloatOfBits(word));
  return logits;
}

class SamplingGoldenTest : public testing::Test {
 protected:
  SamplingGoldenTest() : cases_(ReadCases(OCTAVO_SOURCE_DIR "/tests/golden/sampling/cases.txt")) {}

  const std::vector<GoldenCase> cases_;
};

TEST_F(SamplingGoldenTest, ProcessedLogitsEqualTheReferenceBitForBit) {
  ASSERT_EQ(cases_.size(), 21u);
  for (const GoldenCase& golden : cases_) {
    SCOPED_TRACE(golden.at("case").front());
    std::vector<float> logits = LogitsOf(golden), expected = logits;
    for (const std::string& word : golden.at("changed")) {
      const auto [index, bits] = SplitPair(word);
      expected[static_cast<size_t>(index)] = FloatOfBits(bits);
    }
    LogitsProcessor processor(ParamsOf(golden), TokenIds(golden, "eos"),
                              static_cast<int32_t>(logits.size()));
    processor.AddPrompt(TokenIds(golden, "prompt"));
    for (TokenId token_id : TokenIds(golden, "output")) processor.AddOutput(token_id);

    processor.Apply(logits);

    for (size_t i = 0; i < logits.size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(logits[i]), std::bit_cast<uint32_t>(expected[i])) << i;
    }
  }
}

TEST_F(SamplingGoldenTest, DrawsEqualTheReference) {
  ASSERT_EQ(cases_.size(), 21u);
  for (const GoldenCase& golden : cases_) {
    SCOPED_TRACE(golden.at("case").front());
    const SamplingParams params = ParamsOf(golden);
    const std::vector<float> row = LogitsOf(golden);
    const std::vector<TokenId> eos_token_ids = TokenIds(golden, "eos");
    ASSERT_TRUE(params.Validate(static_cast<int32_t>(row.size())).ok());
    Sampler sampler(params, {.vocab_size = static_cast<int32_t>(row.size()),
                             .eos_token_ids = eos_token_ids,
                             .seed = IntOr(golden, "seed", 0),
                             .stream = static_cast<uint32_t>(IntOr(golden, "stream", 0)),
                             .row_ops = &TestRowOps()});
    sampler.AddPrompt(TokenIds(golden, "prompt"));
    for (TokenId token_id : TokenIds(golden, "output")) sampler.AddOutput(token_id);

    for (const std::string& word : golden.at("draws")) {
      const auto [position, token_id] = SplitPair(word);
      std::vector<float> logits = row;
      EXPECT_EQ(sampler.Sample(logits, position), std::stoi(token_id)) << position;
    }
  }
}

}  // namespace
}  // namespace octavo::engine
