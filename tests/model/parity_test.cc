// The default model against HF Transformers in float32 on the same file, position by position
// (tests/golden/parity).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "support/test_model.h"

namespace octavo::testing {
namespace {

struct GoldenSequence {
  std::string name;
  bool is_wikitext = false;
  std::vector<int32_t> tokens;
  std::vector<float> rest_logprobs;  // [num_tokens]
  std::vector<float> top_logprobs;   // [num_tokens, top_k]
  std::vector<uint16_t> top_ids;     // [num_tokens, top_k]
};

struct Golden {
  uint32_t top_k = 0;
  std::vector<GoldenSequence> sequences;
};

Golden ReadGolden() {
  GoldenReader reader(GoldenPath("parity/smollm2-135m-q4_1.parity"));
  EXPECT_EQ(reader.ReadText(8), "OCTPARIT");
  EXPECT_EQ(reader.Read<uint32_t>(), 1u);
  Golden golden;
  golden.top_k = reader.Read<uint32_t>();
  EXPECT_EQ(reader.Read<uint32_t>(), 49152u);
  const auto num_sequences = reader.Read<uint32_t>();
  reader.ReadText(32);  // the model's SHA-256
  for (uint32_t i = 0; i < num_sequences; ++i) {
    GoldenSequence sequence;
    const auto name_len = reader.Read<uint32_t>();
    sequence.is_wikitext = reader.Read<uint32_t>() == 1;
    const auto num_tokens = reader.Read<uint32_t>();
    sequence.name = reader.ReadText(name_len);
    sequence.tokens = reader.ReadVector<int32_t>(num_tokens);
    reader.ReadVector<float>(num_tokens);  // log-probabilities of the next tokens
    sequence.rest_logprobs = reader.ReadVector<float>(num_tokens);
    sequence.top_logprobs = reader.ReadVector<float>(size_t{num_tokens} * golden.top_k);
    sequence.top_ids = reader.ReadVector<uint16_t>(size_t{num_tokens} * golden.top_k);
    golden.sequences.push_back(std::move(sequence));
  }
  EXPECT_TRUE(reader.at_end());
  return golden;
}

// Sums over positions.
struct Tally {
  double kl = 0;
  int64_t positions = 0;
  int64_t same_top = 0;
  int64_t clear_positions = 0;  // where the reference's margin is over 0.1 in probability
  int64_t clear_same_top = 0;

  void Add(const Tally& other) {
    kl += other.kl;
    positions += other.positions;
    same_top += other.same_top;
    clear_positions += other.clear_positions;
    clear_same_top += other.clear_same_top;
  }
  double mean_kl() const { return kl / static_cast<double>(positions); }
};

void CompareRow(const Golden& golden, const GoldenSequence& sequence, int64_t position,
                std::span<const float> logits, Tally* tally) {
  const auto top =
      static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  double sum = 0;
  for (float logit : logits) sum += std::exp(static_cast<double>(logit) - logits[top]);
  const double log_sum = std::log(sum) + logits[top];

  const size_t row = static_cast<size_t>(position) * golden.top_k;
  double kl = 0;
  double rest = 1.0;
  for (size_t k = 0; k < golden.top_k; ++k) {
    const double theirs = sequence.top_logprobs[row + k];
    const double ours = logits[sequence.top_ids[row + k]] - log_sum;
    kl += std::exp(theirs) * (theirs - ours);
    rest -= std::exp(ours);
  }
  const double theirs_rest = sequence.rest_logprobs[static_cast<size_t>(position)];
  kl += std::exp(theirs_rest) * (theirs_rest - std::log(std::max(rest, 1e-12)));

  const bool same_top = top == sequence.top_ids[row];
  tally->kl += kl;
  tally->positions += 1;
  tally->same_top += same_top ? 1 : 0;
  if (std::exp(sequence.top_logprobs[row]) - std::exp(sequence.top_logprobs[row + 1]) > 0.1) {
    tally->clear_positions += 1;
    tally->clear_same_top += same_top ? 1 : 0;
  }
}

class ParityTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!DefaultModelPath()) GTEST_SKIP() << "the default model is absent: run scripts/fetch-model";
  }

  // Compares every position of every sequence, prints a line for each, and returns the sums over
  // prompts and windows.
  std::pair<Tally, Tally> Measure(const LoadedModel::Options& options) {
    const Golden golden = ReadGolden();
    LoadedModel model(*DefaultModelPath(), options);
    Tally prompts;
    Tally windows;
    for (const GoldenSequence& sequence : golden.sequences) {
      Tally tally;
      const size_t num_positions =
          kIsSanitized ? std::min<size_t>(sequence.tokens.size(), 12) : sequence.tokens.size();
      model.Run(
          std::span(sequence.tokens).first(num_positions), [](int64_t) { return true; },
          [&](int64_t position, std::span<const float> logits) {
            CompareRow(golden, sequence, position, logits, &tally);
          });
      std::printf(
          "%-24s %5lld tokens  mean KL %.3g  same top %.2f %%\n", sequence.name.c_str(),
          static_cast<long long>(tally.positions), tally.mean_kl(),
          100.0 * static_cast<double>(tally.same_top) / static_cast<double>(tally.positions));
      (sequence.is_wikitext ? windows : prompts).Add(tally);
    }
    for (const auto& [name, tally] : {std::pair{"prompts", prompts}, {"windows", windows}}) {
      std::printf(
          "all %-20s %5lld tokens  mean KL %.4g  same top %.2f %%  where the margin is clear "
          "%.2f %%\n",
          name, static_cast<long long>(tally.positions), tally.mean_kl(),
          100.0 * static_cast<double>(tally.same_top) / static_cast<double>(tally.positions),
          100.0 * static_cast<double>(tally.clear_same_top) /
              static_cast<double>(tally.clear_positions));
    }
    return {prompts, windows};
  }
};

TEST_F(ParityTest, Float32ProductsWithFloat32KvMatchTransformers) {
  const auto [prompts, windows] =
      Measure({.products = kernels::Products::kFloat32, .kv_dtype = kernels::KvDtype::kFloat32});

  EXPECT_LE(prompts.mean_kl(), 1e-5);
  EXPECT_LE(windows.mean_kl(), 1e-5);
  EXPECT_GE(prompts.clear_same_top, 0.995 * static_cast<double>(prompts.clear_positions));
}

TEST_F(ParityTest, Float32ProductsWithFloat16KvMatchTransformers) {
  const auto [prompts, windows] =
      Measure({.products = kernels::Products::kFloat32, .kv_dtype = kernels::KvDtype::kFloat16});

  EXPECT_LE(prompts.mean_kl(), 1e-5);
  EXPECT_LE(windows.mean_kl(), 1e-5);
}

TEST_F(ParityTest, Int16ProductsMatchTransformers) {
  const auto [prompts, windows] =
      Measure({.products = kernels::Products::kInt16, .kv_dtype = kernels::KvDtype::kFloat16});

  EXPECT_LE(prompts.mean_kl(), 1e-5);
  EXPECT_LE(windows.mean_kl(), 1e-5);
}

// The KV format alone: products in float32. Provisional gates, for 0.0009 and 98.7 % measured on
// the prompts, 0.0008 and 97.9 % on the windows.
TEST_F(ParityTest, Float32ProductsWithInt8KvStayWithinTheirBoundOfTransformers) {
  const auto [prompts, windows] =
      Measure({.products = kernels::Products::kFloat32, .kv_dtype = kernels::KvDtype::kInt8});

  EXPECT_LE(prompts.mean_kl(), 0.005);
  EXPECT_LE(windows.mean_kl(), 0.005);
  EXPECT_GE(windows.same_top, 0.97 * static_cast<double>(windows.positions));
}

TEST_F(ParityTest, Int8ProductsStayWithinTheirBoundOfTransformers) {
  const auto [prompts, windows] =
      Measure({.products = kernels::Products::kInt8, .kv_dtype = kernels::KvDtype::kFloat16});

  // The bound is that of whole windows; their first tokens, which sanitizers have the time for, lie
  // a little higher.
  EXPECT_LE(windows.mean_kl(), kIsSanitized ? 0.006 : 0.0032);
  EXPECT_GE(prompts.clear_same_top + windows.clear_same_top,
            0.995 * static_cast<double>(prompts.clear_positions + windows.clear_positions));
}

}  // namespace
}  // namespace octavo::testing
