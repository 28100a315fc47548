// The exactness law on the real model: what only changes how, never what, leaves every bit of ids
// and log-probabilities alone (docs/contracts/exactness.md).

#include <gtest/gtest.h>

#include <bit>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"
#include "octavo/engine.h"
#include "support/test_model.h"

namespace octavo::testing {
namespace {

struct Outcome {
  std::vector<TokenId> token_ids;
  std::vector<uint32_t> logprob_bits;  // of the chosen and the most likely tokens, step by step
  std::vector<uint32_t> prompt_logprob_bits;  // the same for every prompt position

  bool operator==(const Outcome&) const = default;

  // FNV-1a over all of it: what is committed as a golden.
  uint64_t Hash() const {
    uint64_t hash = 0xcbf29ce484222325u;
    const auto mix = [&hash](uint32_t word) {
      for (int byte = 0; byte < 4; ++byte) {
        hash = (hash ^ ((word >> (8 * byte)) & 0xff)) * 0x100000001b3u;
      }
    };
    for (TokenId id : token_ids) mix(static_cast<uint32_t>(id));
    for (uint32_t bits : logprob_bits) mix(bits);
    for (uint32_t bits : prompt_logprob_bits) mix(bits);
    return hash;
  }
};

void AppendBits(const std::vector<TokenLogprobs>& logprobs, std::vector<uint32_t>* bits) {
  for (const TokenLogprobs& entry : logprobs) {
    bits->push_back(static_cast<uint32_t>(entry.chosen.token_id));
    bits->push_back(std::bit_cast<uint32_t>(entry.chosen.logprob));
    for (const TokenLogprob& top : entry.top) {
      bits->push_back(static_cast<uint32_t>(top.token_id));
      bits->push_back(std::bit_cast<uint32_t>(top.logprob));
    }
  }
}

struct Request {
  std::vector<TokenId> prompt;
  SamplingParams params;
};

// `length` tokens of prose, by repeating a paragraph; the number makes every repetition different.
Request MakeRequest(Engine& engine, size_t length, int32_t max_tokens, float temperature,
                    bool prompt_logprobs) {
  std::string text;
  Request request;
  for (int i = 1; request.prompt.size() < length; ++i) {
    text += "Paragraph " + std::to_string(i * 37) +
            ": the lighthouse keeper wrote down the height of the tide, the colour of the sky and "
            "the names of ships that passed, and every evening he read it aloud.\n";
    request.prompt = *engine.Tokenize(text);
  }
  request.prompt.resize(length);
  request.params.temperature = temperature;
  request.params.seed = 7;
  request.params.max_tokens = max_tokens;
  request.params.ignore_eos = true;
  request.params.logprobs = 5;
  if (prompt_logprobs) request.params.prompt_logprobs = 2;
  return request;
}

std::unique_ptr<Engine> MakeEngine(const EngineOptions& options) {
  Result<std::unique_ptr<Engine>> engine = Engine::Create(options);
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  return engine.ok() ? *std::move(engine) : nullptr;
}

Outcome OutcomeOf(const Result<RequestOutput>& output) {
  EXPECT_TRUE(output.ok()) << output.status().message();
  Outcome outcome;
  if (!output.ok()) return outcome;
  outcome.token_ids = output->outputs[0].token_ids;
  AppendBits(output->outputs[0].logprobs, &outcome.logprob_bits);
  AppendBits(output->prompt_logprobs, &outcome.prompt_logprob_bits);
  return outcome;
}

class ExactnessTest : public ::testing::Test {
 protected:
  // 300 tokens cross a chunk of 256 positions, and every block size's borders.
  static constexpr size_t kPromptTokens = kIsSanitized ? 36 : 300;
  static constexpr int32_t kOutputTokens = kIsSanitized ? 3 : 12;

  void SetUp() override {
    if (!DefaultModelPath()) GTEST_SKIP() << "the default model is absent: run scripts/fetch-model";
    base_.model.path = *DefaultModelPath();
    base_.model.max_model_len = 1024;
    base_.device.threads = 2;
  }

  Outcome Run(const EngineOptions& options, size_t prompt_tokens = kPromptTokens,
              int32_t output_tokens = kOutputTokens) {
    const std::unique_ptr<Engine> engine = MakeEngine(options);
    if (!engine) return {};
    Outcome all;
    // Greedy, with the prompt's log-probabilities; and seeded, whose last layer skips rows.
    for (const bool greedy : {true, false}) {
      const Request request =
          MakeRequest(*engine, prompt_tokens, output_tokens, greedy ? 0.0f : 0.9f, greedy);
      const Outcome one = OutcomeOf(engine->Generate(request.prompt, request.params));
      all.token_ids.insert(all.token_ids.end(), one.token_ids.begin(), one.token_ids.end());
      all.logprob_bits.insert(all.logprob_bits.end(), one.logprob_bits.begin(),
                              one.logprob_bits.end());
      all.prompt_logprob_bits.insert(all.prompt_logprob_bits.end(), one.prompt_logprob_bits.begin(),
                                     one.prompt_logprob_bits.end());
    }
    EXPECT_TRUE(engine->CheckIntegrity().ok());
    EXPECT_EQ(all.token_ids.size(), 2 * static_cast<size_t>(output_tokens));
    return all;
  }

  EngineOptions base_;
};

// What must hold for each format of K and V by itself.
class EveryKvFormatTest : public ExactnessTest, public ::testing::WithParamInterface<KvCacheDtype> {
 protected:
  void SetUp() override {
    ExactnessTest::SetUp();
    base_.cache.dtype = GetParam();
  }

  const Outcome& Baseline() {
    static std::map<KvCacheDtype, Outcome> outcomes;
    const auto [entry, is_new] = outcomes.try_emplace(GetParam());
    if (is_new) entry->second = Run(base_);
    return entry->second;
  }
};

INSTANTIATE_TEST_SUITE_P(Exactness, EveryKvFormatTest,
                         ::testing::Values(KvCacheDtype::kFloat16, KvCacheDtype::kInt8),
                         [](const auto& test) {
                           return test.param == KvCacheDtype::kInt8 ? "int8" : "float16";
                         });

TEST_P(EveryKvFormatTest, TheSameRequestTwiceGivesTheSameBits) {
  EXPECT_EQ(Run(base_), Baseline());
}

TEST_P(EveryKvFormatTest, BlockSizesGiveTheSameBits) {
  for (int32_t block_size : {8, 32, 64, 256}) {
    EngineOptions options = base_;
    options.cache.block_size = block_size;
    EXPECT_EQ(Run(options), Baseline()) << "block size " << block_size;
  }
}

TEST_P(EveryKvFormatTest, PrefillChunksGiveTheSameBits) {
  for (int32_t chunk : {1, 7, 64, 1024}) {
    EngineOptions options = base_;
    options.scheduler.max_num_batched_tokens = chunk;
    EXPECT_EQ(Run(options), Baseline()) << "chunks of " << chunk;
  }
}

TEST_P(EveryKvFormatTest, CacheModesGiveTheSameBits) {
  for (KvCacheMode mode : {KvCacheMode::kContiguous, KvCacheMode::kNone}) {
    EngineOptions options = base_;
    options.cache.mode = mode;
    EXPECT_EQ(Run(options), Baseline()) << "mode " << static_cast<int>(mode);
  }
}

TEST_P(EveryKvFormatTest, ThreadCountsGiveTheSameBits) {
  for (int32_t threads : {1, 3, 8}) {
    EngineOptions options = base_;
    options.device.threads = threads;
    EXPECT_EQ(Run(options), Baseline()) << threads << " threads";
  }
}

TEST_P(EveryKvFormatTest, InstructionSetsGiveTheSameBits) {
  EngineOptions options = base_;
  options.device.simd = SimdLevel::kAvx2;
  EXPECT_EQ(Run(options), Baseline());
  options.device.simd = SimdLevel::kAvx512;
  if (kernels::FindKernels(kernels::Isa::kAvx512) == nullptr) {
    std::printf("AVX-512 was not run: this processor does not have it\n");
  } else {
    EXPECT_EQ(Run(options), Baseline());
  }
}

TEST_P(EveryKvFormatTest, TheReferenceKernelsGiveTheSameBits) {
  constexpr size_t kTokens = kIsSanitized ? 4 : 40;
  for (ComputeType compute : {ComputeType::kInt8, ComputeType::kInt16, ComputeType::kFloat32}) {
    EngineOptions options = base_;
    options.model.compute = compute;
    const Outcome vectorised = Run(options, kTokens, /*output_tokens=*/3);
    options.device.simd = SimdLevel::kReference;
    EXPECT_EQ(Run(options, kTokens, 3), vectorised);
  }
}

TEST_F(ExactnessTest, Int16ProductsGiveTheSameBitsHoweverTheyAreComputed) {
  EngineOptions options = base_;
  options.model.compute = ComputeType::kInt16;
  const Outcome expected = Run(options);
  EXPECT_NE(expected, Run(base_)) << "the products were not those of 16 bits";

  EngineOptions changed = options;
  changed.scheduler.max_num_batched_tokens = 7;
  EXPECT_EQ(Run(changed), expected) << "chunks of 7";
  changed = options;
  changed.device.threads = 3;
  EXPECT_EQ(Run(changed), expected) << "3 threads";
  changed = options;
  changed.device.simd = SimdLevel::kAvx2;
  EXPECT_EQ(Run(changed), expected) << "AVX2";
  changed = options;
  changed.cache.mode = KvCacheMode::kContiguous;
  EXPECT_EQ(Run(changed), expected) << "contiguous";
}

TEST_P(EveryKvFormatTest, AReusedPrefixGivesTheSameBits) {
  const std::unique_ptr<Engine> engine = MakeEngine(base_);
  const Request request = MakeRequest(*engine, kPromptTokens, kOutputTokens, 0.0f, false);
  const Outcome cold = OutcomeOf(engine->Generate(request.prompt, request.params));

  for (size_t shared : {size_t{1}, size_t{15}, size_t{16}, size_t{17}, size_t{257},
                        kPromptTokens - 1, kPromptTokens}) {
    if (shared > kPromptTokens) continue;
    engine->ResetPrefixCache();
    std::vector<TokenId> first(request.prompt.begin(),
                               request.prompt.begin() + static_cast<std::ptrdiff_t>(shared));
    first.push_back(11);  // what follows the shared part is different
    ASSERT_TRUE(engine->Generate(first, request.params).ok());

    const Result<RequestOutput> warm = engine->Generate(request.prompt, request.params);

    EXPECT_EQ(OutcomeOf(warm), cold) << shared << " shared tokens";
    EXPECT_EQ(warm->num_cached_tokens, static_cast<int32_t>(std::min(shared, kPromptTokens - 1)));
    EXPECT_TRUE(engine->CheckIntegrity().ok());
  }
}

// Goldens made on one machine hold on all: each line is a compute type, a KV format and the hash of
// ids and log-probabilities. A change of the arithmetic bumps kArithmeticVersion and re-makes the
// file with the lines that this test prints.
TEST_F(ExactnessTest, OutputsHashToTheCommittedGoldens) {
  if (kIsSanitized) GTEST_SKIP() << "the goldens are of longer outputs";
  std::map<std::string, std::string> golden;
  std::ifstream file(GoldenPath("exactness/smollm2-135m-q4_1.txt"));
  for (std::string name, hash; file >> name >> hash;) golden[name] = hash;

  const std::pair<const char*, ComputeType> computes[] = {{"int8", ComputeType::kInt8},
                                                          {"int16", ComputeType::kInt16},
                                                          {"float32", ComputeType::kFloat32}};
  const std::pair<const char*, KvCacheDtype> dtypes[] = {{"float32", KvCacheDtype::kFloat32},
                                                         {"float16", KvCacheDtype::kFloat16},
                                                         {"bfloat16", KvCacheDtype::kBFloat16},
                                                         {"int8", KvCacheDtype::kInt8}};
  for (const auto& [compute_name, compute] : computes) {
    for (const auto& [dtype_name, dtype] : dtypes) {
      EngineOptions options = base_;
      options.model.compute = compute;
      options.cache.dtype = dtype;
      char hash[17];
      std::snprintf(hash, sizeof(hash), "%016llx",
                    static_cast<unsigned long long>(Run(options).Hash()));
      const std::string name = std::string(compute_name) + "/" + dtype_name;
      std::printf("%s %s\n", name.c_str(), hash);
      EXPECT_EQ(golden[name], hash) << name;
    }
  }
}

}  // namespace
}  // namespace octavo::testing
