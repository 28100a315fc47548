// Finding, checking and packing the tensors of a model file.

#include "model/model_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "model/test_model_file.h"

namespace octavo::model {
namespace {

using ::testing::HasSubstr;

class ModelWeightsTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<ModelWeights>> Load(const LoadedFile& file) {
    return ModelWeights::Load(*file.file, file.config, threads_, ledger_,
                              [this](double share) { progress_.push_back(share); });
  }

  // The file is refused, both when memory is planned and when it is loaded.
  void ExpectRefused(const TestModelFile& source, StatusCode code,
                     const std::vector<std::string>& parts) {
    const LoadedFile file(source);
    const Result<int64_t> planned = ModelWeights::PlannedBytes(*file.file, file.config);
    const Result<std::unique_ptr<ModelWeights>> loaded = Load(file);
    ASSERT_FALSE(planned.ok());
    ASSERT_FALSE(loaded.ok());
    EXPECT_EQ(planned.status().message(), loaded.status().message());
    EXPECT_EQ(loaded.status().code(), code);
    EXPECT_THAT(loaded.status().message(), HasSubstr("test.gguf"));
    for (const std::string& part : parts) EXPECT_THAT(loaded.status().message(), HasSubstr(part));
    EXPECT_EQ(ledger_.actual().total(), 0);
  }

  base::MemoryLedger ledger_;
  base::ThreadPool threads_{2};
  std::vector<double> progress_;
};

// Logits after each of a few tokens.
std::vector<uint32_t> LogitBits(const TestModelFile& source) {
  const LoadedFile file(source);
  TestModel model(file, {});
  const std::vector<TokenId> tokens = {3, 1, 4, 1, 5, 9, 2, 6};
  const std::vector<int32_t> rows = {0, 1, 2, 3, 4, 5, 6, 7};
  const std::vector<uint32_t> blocks = {5};
  const SequenceSlice slice{8, 0, blocks};
  return BitsOf(model.Step({tokens, std::span(&slice, 1), rows}));
}

TEST_F(ModelWeightsTest, EachMissingTensorIsNamed) {
  for (const char* name : {"output_norm.weight", "blk.0.attn_norm.weight", "blk.0.attn_q.weight",
                           "blk.0.attn_k.weight", "blk.1.attn_v.weight", "blk.1.attn_output.weight",
                           "blk.1.ffn_norm.weight", "blk.1.ffn_gate.weight", "blk.0.ffn_up.weight",
                           "blk.1.ffn_down.weight"}) {
    TestModelFile source;
    source.Remove(name);
    ExpectRefused(source, StatusCode::kDataLoss, {name, "missing"});
  }
}

TEST_F(ModelWeightsTest, EachMisshapenTensorIsNamedWithBothShapes) {
  const struct {
    const char* name;
    std::vector<int64_t> dims;
    const char* message;
  } cases[] = {
      {"token_embd.weight", {32, 80}, "is [32, 80], but the model needs [64, 80]"},
      {"output_norm.weight", {32}, "is [32, 1], but the model needs [64, 1]"},
      {"blk.1.attn_norm.weight", {64, 2}, "is [64, 2], but the model needs [64, 1]"},
      {"blk.0.attn_q.weight", {64, 32}, "is [64, 32], but the model needs [64, 64]"},
      {"blk.0.attn_k.weight", {64, 64}, "is [64, 64], but the model needs [64, 32]"},
      {"blk.1.attn_v.weight", {32, 64}, "is [32, 64], but the model needs [64, 32]"},
      {"blk.1.ffn_gate.weight", {96, 64}, "is [96, 64], but the model needs [64, 96]"},
      {"blk.0.ffn_down.weight", {64, 96}, "is [64, 96], but the model needs [96, 64]"},
      {"blk.0.ffn_up.weight", {64, 48, 2}, "is [64, 48], but the model needs [64, 96]"},
  };
  for (const auto& c : cases) {
    TestModelFile source;
    TestTensor& tensor = source.Find(c.name);
    tensor.dims = c.dims;
    tensor.stored.resize(sizeof(float) *
                         static_cast<size_t>(std::accumulate(c.dims.begin(), c.dims.end(),
                                                             int64_t{1}, std::multiplies<>())));
    ExpectRefused(source, StatusCode::kDataLoss, {c.name, c.message});
  }
}

TEST_F(ModelWeightsTest, AThirdDimensionIsNotOverlooked) {
  TestModelFile source;
  TestTensor& tensor = source.Find("blk.0.ffn_up.weight");
  tensor.dims = {64, 96, 2};
  tensor.stored.resize(tensor.stored.size() * 2);
  ExpectRefused(source, StatusCode::kDataLoss, {"blk.0.ffn_up.weight"});
}

TEST_F(ModelWeightsTest, AMisshapenBiasIsNamed) {
  TestModelFile source;
  source.Vector("blk.0.attn_q.bias", TestModelFile::kQuery + 1);
  ExpectRefused(source, StatusCode::kDataLoss, {"blk.0.attn_q.bias", "[65, 1]", "[64, 1]"});
}

TEST_F(ModelWeightsTest, AFusedQueryKeyValueGivesTheSameLogits) {
  for (tensor::DType format : {tensor::DType::kF32, tensor::DType::kQ8_0}) {
    const TestModelFile apart(format);
    TestModelFile fused(format);
    fused.FuseQueryKeyValue();

    EXPECT_EQ(LogitBits(fused), LogitBits(apart));
  }
}

TEST_F(ModelWeightsTest, AMisshapenFusedQueryKeyValueIsNamed) {
  TestModelFile source;
  source.FuseQueryKeyValue();
  TestTensor& tensor = source.Find("blk.1.attn_qkv.weight");
  tensor.dims = {64, 64};
  tensor.stored.resize(64 * 64 * sizeof(float));
  ExpectRefused(source, StatusCode::kDataLoss, {"blk.1.attn_qkv.weight", "[64, 64]", "[64, 128]"});
}

// A bias that is left out would give wrong answers in silence.
TEST_F(ModelWeightsTest, ABiasBesideAFusedQueryKeyValueIsRefused) {
  for (const char* name : {"attn_qkv.bias", "attn_q.bias", "attn_k.bias", "attn_v.bias"}) {
    TestModelFile source;
    source.FuseQueryKeyValue();
    source.Vector(std::string("blk.1.") + name, TestModelFile::kQuery);
    ExpectRefused(source, StatusCode::kUnimplemented, {std::string("blk.1.") + name});
  }
}

TEST_F(ModelWeightsTest, WithoutAnOutputMatrixTheEmbeddingServes) {
  const TestModelFile tied;
  TestModelFile copied;
  TestTensor output = copied.Find("token_embd.weight");
  output.name = "output.weight";
  copied.Add(output);

  EXPECT_EQ(LogitBits(tied), LogitBits(copied));
}

TEST_F(ModelWeightsTest, AnOutputMatrixOfItsOwnIsUsed) {
  const TestModelFile tied;
  TestModelFile untied;
  untied.Matrix("output.weight", TestModelFile::kHidden, TestModelFile::kVocab);

  EXPECT_NE(LogitBits(tied), LogitBits(untied));
}

TEST_F(ModelWeightsTest, AMisshapenOutputMatrixIsNamed) {
  TestModelFile source;
  source.Matrix("output.weight", TestModelFile::kHidden, TestModelFile::kVocab + 1);
  ExpectRefused(source, StatusCode::kDataLoss, {"output.weight", "[64, 41]", "[64, 40]"});
}

TEST_F(ModelWeightsTest, ABiasOfTheOutputIsAddedToTheLogits) {
  TestModelFile without;
  without.Matrix("output.weight", TestModelFile::kHidden, TestModelFile::kVocab);
  TestModelFile with(tensor::DType::kF32);
  with.Matrix("output.weight", TestModelFile::kHidden, TestModelFile::kVocab);
  std::vector<float> bias(TestModelFile::kVocab, 0.0f);
  bias[7] = 2.5f;
  std::vector<std::byte> stored(bias.size() * sizeof(float));
  std::memcpy(stored.data(), bias.data(), stored.size());
  with.Add({"output.bias", tensor::DType::kF32, {TestModelFile::kVocab}, stored});

  const auto to_floats = [](const std::vector<uint32_t>& bits) {
    std::vector<float> floats(bits.size());
    std::memcpy(floats.data(), bits.data(), bits.size() * sizeof(float));
    return floats;
  };
  const std::vector<float> plain = to_floats(LogitBits(without));
  const std::vector<float> biased = to_floats(LogitBits(with));
  ASSERT_EQ(plain.size(), biased.size());
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(biased[i], plain[i] + bias[i % TestModelFile::kVocab]) << "logit " << i;
  }
}

TEST_F(ModelWeightsTest, ALongRopeFileNeedsBothListsOfDivisors) {
  for (const char* absent : {"rope_factors_long.weight", "rope_factors_short.weight"}) {
    TestModelFile source;
    source.SetRopeScaling("longrope");
    source.Vector("rope_factors_long.weight", 8);
    source.Vector("rope_factors_short.weight", 8);
    source.Remove(absent);
    ExpectRefused(source, StatusCode::kDataLoss, {absent, "longrope"});
  }
}

TEST_F(ModelWeightsTest, DivisorsOfTheWrongNumberOrSignAreRefused) {
  TestModelFile too_many;
  too_many.Vector("rope_freqs.weight", 16);
  ExpectRefused(too_many, StatusCode::kDataLoss, {"rope_freqs.weight", "[16, 1]", "[8, 1]"});

  for (float value : {0.0f, -1.0f, std::nanf(""), INFINITY}) {
    TestModelFile source;
    source.Vector("rope_freqs.weight", 8);
    std::memcpy(source.Find("rope_freqs.weight").stored.data() + 12, &value, sizeof(value));
    ExpectRefused(source, StatusCode::kDataLoss, {"rope_freqs.weight", "positive and finite"});
  }
}

TEST_F(ModelWeightsTest, WhatIsReservedIsWhatWasPlanned) {
  for (tensor::DType format : {tensor::DType::kF32, tensor::DType::kQ8_0}) {
    TestModelFile source(format);
    source.Matrix("output.weight", TestModelFile::kHidden, TestModelFile::kVocab);
    source.Vector("blk.0.attn_q.bias", TestModelFile::kQuery);
    const LoadedFile file(source);
    const Result<int64_t> planned = ModelWeights::PlannedBytes(*file.file, file.config);
    const Result<std::unique_ptr<ModelWeights>> weights = Load(file);
    ASSERT_TRUE(planned.ok() && weights.ok());

    EXPECT_EQ(ledger_.actual()[MemoryTag::kWeights], *planned);
    EXPECT_EQ(ledger_.actual().total(), *planned);
    EXPECT_EQ((*weights)->has_quantized_matrix(), format == tensor::DType::kQ8_0);
  }
  EXPECT_EQ(ledger_.actual().total(), 0);  // given back with the weights
}

TEST_F(ModelWeightsTest, ProgressNeverFallsAndEndsAtOne) {
  const LoadedFile file{TestModelFile(tensor::DType::kQ8_0)};
  ASSERT_TRUE(Load(file).ok());

  ASSERT_GE(progress_.size(), 15u);  // once for each matrix at least
  EXPECT_GT(progress_.front(), 0.0);
  EXPECT_TRUE(std::is_sorted(progress_.begin(), progress_.end()));
  EXPECT_LT(progress_[progress_.size() - 2], 1.0);
  EXPECT_EQ(progress_.back(), 1.0);
}

TEST_F(ModelWeightsTest, AnEmbeddingIsTheRowOfItsToken) {
  TestModelFile source;
  const LoadedFile file(source);
  const Result<std::unique_ptr<ModelWeights>> weights = Load(file);
  ASSERT_TRUE(weights.ok());
  const std::vector<std::byte>& stored = source.Find("token_embd.weight").stored;

  for (int32_t token : {0, 17, 39}) {
    std::vector<float> row(TestModelFile::kHidden);
    (*weights)->EmbedToken(token, row.data());
    const size_t row_bytes = row.size() * sizeof(float);
    EXPECT_EQ(
        std::memcmp(row.data(), stored.data() + static_cast<size_t>(token) * row_bytes, row_bytes),
        0)
        << "token " << token;
  }
}

}  // namespace
}  // namespace octavo::model
