// Every tiny random-weight model against the float64 forward pass that shares no code with ours
// (tests/golden/tiny).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "support/test_model.h"

namespace octavo::testing {
namespace {

struct TinyGolden {
  uint32_t vocab_size;
  uint32_t max_model_len;
  std::vector<int32_t> tokens;
  std::vector<int32_t> positions;
  std::vector<float> logprobs;  // [num_rows, vocab_size]
};

TinyGolden ReadTinyGolden(const std::string& path) {
  GoldenReader reader(path);
  EXPECT_EQ(reader.ReadText(8), "OCTOTINY");
  EXPECT_EQ(reader.Read<uint32_t>(), 1u);
  TinyGolden golden;
  golden.vocab_size = reader.Read<uint32_t>();
  golden.max_model_len = reader.Read<uint32_t>();
  const auto num_tokens = reader.Read<uint32_t>();
  const auto num_rows = reader.Read<uint32_t>();
  golden.tokens = reader.ReadVector<int32_t>(num_tokens);
  golden.positions = reader.ReadVector<int32_t>(num_rows);
  golden.logprobs = reader.ReadVector<float>(size_t{num_rows} * golden.vocab_size);
  EXPECT_TRUE(reader.at_end());
  return golden;
}

std::vector<double> LogSoftmax(std::span<const float> logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float logit : logits) sum += std::exp(logit - max);
  std::vector<double> logprobs;
  for (float logit : logits) logprobs.push_back(logit - max - std::log(sum));
  return logprobs;
}

struct Distance {
  double mean_kl = 0;
  double max_difference = 0;  // of a log-probability
};

Distance DistanceTo(const TinyGolden& golden, LoadedModel& model) {
  Distance distance;
  const std::set<int64_t> wanted(golden.positions.begin(), golden.positions.end());
  size_t row = 0;
  model.Run(
      golden.tokens, [&](int64_t position) { return wanted.contains(position); },
      [&](int64_t position, std::span<const float> logits) {
        ASSERT_EQ(position, golden.positions[row]);
        const std::vector<double> ours = LogSoftmax(logits);
        const float* theirs = golden.logprobs.data() + row * golden.vocab_size;
        for (size_t id = 0; id < ours.size(); ++id) {
          const double difference = theirs[id] - ours[id];
          distance.mean_kl += std::exp(theirs[id]) * difference;
          distance.max_difference = std::max(distance.max_difference, std::abs(difference));
        }
        ++row;
      });
  EXPECT_EQ(row, golden.positions.size());
  distance.mean_kl /= static_cast<double>(golden.positions.size());
  return distance;
}

std::vector<std::string> TinyModelNames() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(GoldenPath("tiny"))) {
    if (entry.path().extension() == ".gguf") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

const char* NameOf(kernels::Products products) {
  return products == kernels::Products::kInt8    ? "int8"
         : products == kernels::Products::kInt16 ? "int16"
                                                 : "float32";
}

class TinyModelTest : public ::testing::TestWithParam<std::string> {
 protected:
  Distance Measure(kernels::Products products) {
    const std::string stem = GoldenPath("tiny/" + GetParam());
    const TinyGolden golden = ReadTinyGolden(stem + ".golden");
    LoadedModel model(stem + ".gguf",
                      {.products = products,
                       .kv_dtype = kernels::KvDtype::kFloat32,
                       .max_model_len = static_cast<int32_t>(golden.max_model_len)});
    EXPECT_EQ(model.config().vocab_size, static_cast<int32_t>(golden.vocab_size));
    const Distance distance = DistanceTo(golden, model);
    std::printf("%-28s %-7s mean KL %.3g, largest log-probability difference %.3g\n",
                GetParam().c_str(), NameOf(products), distance.mean_kl, distance.max_difference);
    return distance;
  }
};

// Float32 sums of a few hundred terms stay this close to float64.
TEST_P(TinyModelTest, Float32ProductsGiveTheReferenceDistribution) {
  const Distance distance = Measure(kernels::Products::kFloat32);

  EXPECT_LE(std::abs(distance.mean_kl), 1e-7);
  EXPECT_LE(distance.max_difference, 2e-4);
}

// Activations of 8 bits lose something, but a wrong scale, code or sub-block loses far more.
TEST_P(TinyModelTest, Int8ProductsStayNearTheReferenceDistribution) {
  const Distance distance = Measure(kernels::Products::kInt8);

  EXPECT_LE(std::abs(distance.mean_kl), 5e-3);
}

// A code of 16 bits is off by at most 1/65,534 of its row's largest value.
TEST_P(TinyModelTest, Int16ProductsLoseNothingThatMatters) {
  const Distance distance = Measure(kernels::Products::kInt16);

  EXPECT_LE(std::abs(distance.mean_kl), 1e-6);
  EXPECT_LE(distance.max_difference, 5e-3);
}

INSTANTIATE_TEST_SUITE_P(AllFiles, TinyModelTest, ::testing::ValuesIn(TinyModelNames()),
                         [](const ::testing::TestParamInfo<std::string>& file) {
                           std::string name = file.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(TinyModelsTest, ThereAreFilesToTest) { EXPECT_GE(TinyModelNames().size(), 30u); }

}  // namespace
}  // namespace octavo::testing
