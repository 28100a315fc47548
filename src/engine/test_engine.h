#pragma once

// Purpose:    engines on the tiny models of tests/golden/tiny, for the tests of this folder and of
//             those above it.
// Ownership:  a ModelWithNaN owns its file.
// Threading:  one thread.
// Invariants: none.

#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/gguf_file.h"
#include "octavo/engine.h"

namespace octavo::engine {

inline std::string TinyPath(const std::string& name) {
  return std::string(OCTAVO_SOURCE_DIR) + "/tests/golden/tiny/" + name + ".gguf";
}

// llama-mha-64: 2 layers, 272 tokens of SentencePiece (1 and 2 are control tokens, 2 ends a text),
// 512 tokens of context, 512 bytes of K and V a token and layer in float16.
inline EngineOptions TinyOptions(const std::string& name = "llama-mha-64") {
  EngineOptions options;
  options.model.path = TinyPath(name);
  options.device.threads = 1;
  return options;
}

inline std::unique_ptr<Engine> MakeEngine(const EngineOptions& options) {
  Result<std::unique_ptr<Engine>> engine = Engine::Create(options);
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  return engine.ok() ? *std::move(engine) : nullptr;
}

// A copy of a tiny model whose tensor `tensor_name` (F32) begins with a NaN; its end is that of the
// object.
class ModelWithNaN {
 public:
  explicit ModelWithNaN(std::string_view tensor_name)
      : path_(::testing::TempDir() + "octavo_nan_" + std::to_string(std::random_device()()) +
              ".gguf") {
    std::ifstream source(TinyPath("llama-mha-64"), std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(source)), std::istreambuf_iterator<char>());
    const std::span<const std::byte> view = std::as_bytes(std::span(bytes));
    const Result<formats::GgufFile> file = formats::GgufFile::FromBytes(view);
    EXPECT_TRUE(file.ok()) << file.status().message();
    const formats::GgufTensor* tensor = file->FindTensor(tensor_name);
    EXPECT_NE(tensor, nullptr);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(bytes.data() + (tensor->stored.data() - view.data()), &nan, sizeof(nan));
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~ModelWithNaN() { std::remove(path_.c_str()); }
  ModelWithNaN(const ModelWithNaN&) = delete;
  ModelWithNaN& operator=(const ModelWithNaN&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Tokens that are neither control tokens nor unused ones.
inline std::vector<TokenId> RandomPrompt(size_t length, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<TokenId> ids(3, 258);
  std::vector<TokenId> tokens(length);
  for (TokenId& token : tokens) token = ids(random);
  return tokens;
}

inline SamplingParams Greedy(int32_t max_tokens) {
  SamplingParams params;
  params.temperature = 0.0f;
  params.max_tokens = max_tokens;
  params.ignore_eos = true;
  params.logprobs = 2;
  return params;
}

// Ids and log-probabilities as bits.
inline std::vector<uint32_t> BitsOf(const std::vector<TokenLogprobs>& logprobs) {
  std::vector<uint32_t> bits;
  const auto add = [&bits](const TokenLogprob& entry) {
    bits.push_back(static_cast<uint32_t>(entry.token_id));
    bits.push_back(std::bit_cast<uint32_t>(entry.logprob));
    bits.push_back(static_cast<uint32_t>(entry.rank));
  };
  for (const TokenLogprobs& entry : logprobs) {
    add(entry.chosen);
    for (const TokenLogprob& top : entry.top) add(top);
  }
  return bits;
}

// The one completion of a request that must succeed.
inline CompletionOutput MustGenerate(const Result<RequestOutput>& result) {
  EXPECT_TRUE(result.ok()) << result.status().message();
  if (!result.ok()) return {};
  EXPECT_EQ(result->outputs.size(), 1u);
  return result->outputs.front();
}

// The bits of a request on an engine of its own, without a prefix cache.
inline std::vector<uint32_t> BitsAlone(const std::vector<TokenId>& prompt,
                                       const SamplingParams& params) {
  EngineOptions options = TinyOptions();
  options.cache.enable_prefix_caching = false;
  return BitsOf(MustGenerate(MakeEngine(options)->Generate(prompt, params)).logprobs);
}

// Requests to a tiny model may end one by one, before the next is handed in. A test that needs them
// to meet repeats them, at most this many times.
inline constexpr int kRoundsToMeet = 100;

inline void ExpectSound(Engine& engine) {
  const Status status = engine.CheckIntegrity();
  EXPECT_TRUE(status.ok()) << status.message();
}

}  // namespace octavo::engine
