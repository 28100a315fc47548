// The metadata of a model file: what is read, what is assumed where a key is absent, what is
// refused.

#include "model/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "formats/gguf_builder.h"
#include "formats/gguf_file.h"

namespace octavo::model {
namespace {

using formats::GgufBuilder;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Write = std::function<void(GgufBuilder&, const std::string& key)>;

Write Uint(uint32_t value) {
  return [value](GgufBuilder& file, const std::string& key) { file.Uint32(key, value); };
}
Write Int(int32_t value) {
  return [value](GgufBuilder& file, const std::string& key) { file.Int32(key, value); };
}
Write Float(float value) {
  return [value](GgufBuilder& file, const std::string& key) { file.Float32(key, value); };
}
Write Double(double value) {
  return [value](GgufBuilder& file, const std::string& key) { file.Float64(key, value); };
}
Write Text(std::string value) {
  return [value](GgufBuilder& file, const std::string& key) { file.String(key, value); };
}
Write Uints(std::vector<uint32_t> values) {
  return [values](GgufBuilder& file, const std::string& key) { file.Uint32s(key, values); };
}

// A small valid file, key by key; 4 heads of 16 share 2 K and V heads.
class MetadataFile {
 public:
  explicit MetadataFile(const std::string& architecture = "llama") : prefix_(architecture + ".") {
    Set("general.architecture", Text(architecture));
    Set("block_count", Uint(2));
    Set("embedding_length", Uint(64));
    Set("feed_forward_length", Uint(96));
    Set("attention.head_count", Uint(4));
    Set("attention.head_count_kv", Uint(2));
    Set("context_length", Uint(512));
    Set("attention.layer_norm_rms_epsilon", Float(1e-5f));
  }

  MetadataFile& Set(const std::string& key, Write write) {
    Remove(key);
    entries_.emplace_back(FullKey(key), std::move(write));
    return *this;
  }
  MetadataFile& Remove(const std::string& key) {
    std::erase_if(entries_, [&](const auto& entry) { return entry.first == FullKey(key); });
    return *this;
  }
  MetadataFile& Embedding(std::optional<std::vector<int64_t>> dims) {
    embedding_ = std::move(dims);
    return *this;
  }

  Result<ModelConfig> Read() const {
    GgufBuilder builder;
    for (const auto& [key, write] : entries_) write(builder, key);
    if (embedding_) {
      int64_t elements = 1;
      for (int64_t dim : *embedding_) elements *= dim;
      const std::vector<std::byte> stored(static_cast<size_t>(elements) * 2);
      builder.Tensor("token_embd.weight", tensor::DType::kF16, *embedding_, stored);
    }
    const std::vector<std::byte> bytes = builder.Build();
    const Result<formats::GgufFile> file = formats::GgufFile::FromBytes(bytes, "odd.gguf");
    EXPECT_TRUE(file.ok()) << file.status().message();
    return file.ok() ? ReadModelConfig(*file) : Result<ModelConfig>(file.status());
  }

 private:
  std::string FullKey(const std::string& key) const {
    return key.starts_with("general.") ? key : prefix_ + key;
  }

  std::string prefix_;
  std::vector<std::pair<std::string, Write>> entries_;
  std::optional<std::vector<int64_t>> embedding_ = std::vector<int64_t>{64, 40};
};

ModelConfig MustRead(const MetadataFile& file) {
  const Result<ModelConfig> config = file.Read();
  EXPECT_TRUE(config.ok()) << config.status().message();
  return config.ok() ? *config : ModelConfig{};
}

// The file is refused with `code`, and the one line names the file and all of `parts`.
void ExpectRefused(const MetadataFile& file, StatusCode code,
                   const std::vector<std::string>& parts) {
  const Result<ModelConfig> config = file.Read();
  ASSERT_FALSE(config.ok()) << "wanted an error about " << ::testing::PrintToString(parts);
  EXPECT_EQ(config.status().code(), code) << config.status().message();
  EXPECT_THAT(config.status().message(), HasSubstr("odd.gguf"));
  EXPECT_THAT(config.status().message(), ::testing::Not(HasSubstr("\n")));
  for (const std::string& part : parts) EXPECT_THAT(config.status().message(), HasSubstr(part));
}

TEST(ModelConfigTest, ReadsEveryCountOfAPlainFile) {
  const ModelConfig config = MustRead(MetadataFile().Set("general.name", Text("Small one")));

  EXPECT_EQ(config.architecture, "llama");
  EXPECT_EQ(config.name, "Small one");
  EXPECT_EQ(config.num_layers, 2);
  EXPECT_EQ(config.hidden_dim, 64);
  EXPECT_EQ(config.ffn_dim, 96);
  EXPECT_EQ(config.num_heads, 4);
  EXPECT_EQ(config.num_kv_heads, 2);
  EXPECT_EQ(config.group_size(), 2);
  EXPECT_EQ(config.context_length, 512);
  EXPECT_EQ(config.vocab_size, 40);  // the rows of token_embd.weight
  EXPECT_EQ(config.rms_norm_eps, 1e-5f);
}

TEST(ModelConfigTest, AbsentKeysTakeTheirDefaults) {
  const ModelConfig config = MustRead(MetadataFile().Remove("attention.head_count_kv"));

  EXPECT_EQ(config.name, "");
  EXPECT_EQ(config.num_kv_heads, 4);  // as many as there are heads
  EXPECT_EQ(config.head_dim, 16);     // 64 / 4
  EXPECT_EQ(config.rot_dim, 16);      // the whole head
  EXPECT_EQ(config.rope.scaling, RopeScaling::kNone);
  EXPECT_EQ(config.rope.base, 10000.0);
  EXPECT_EQ(config.rope.factor, 1.0);
  EXPECT_EQ(config.rope.original_context_length, 512);
  EXPECT_EQ(config.rope.attention_factor, 1.0);
  EXPECT_EQ(config.rope.yarn_beta_fast, 32.0);
  EXPECT_EQ(config.rope.yarn_beta_slow, 1.0);
}

TEST(ModelConfigTest, AHeadDimensionOfItsOwnReplacesTheWidthPerHead) {
  const ModelConfig config = MustRead(MetadataFile()
                                          .Set("attention.key_length", Uint(80))
                                          .Set("attention.value_length", Uint(80))
                                          .Set("rope.dimension_count", Uint(40)));

  EXPECT_EQ(config.head_dim, 80);
  EXPECT_EQ(config.rot_dim, 40);
  EXPECT_EQ(config.query_dim(), 320);
  EXPECT_EQ(config.kv_dim(), 160);
}

TEST(ModelConfigTest, EachArchitectureHasItsLayoutOfRope) {
  EXPECT_EQ(MustRead(MetadataFile("llama")).rope.layout, kernels::RopeLayout::kNorm);
  EXPECT_EQ(MustRead(MetadataFile("qwen2")).rope.layout, kernels::RopeLayout::kNeox);
}

TEST(ModelConfigTest, AnUnknownArchitectureIsRefusedWithTheKnownOnes) {
  ExpectRefused(MetadataFile("mamba"), StatusCode::kUnimplemented,
                {"general.architecture", "\"mamba\"", "llama and qwen2"});
  ExpectRefused(MetadataFile("Llama"), StatusCode::kUnimplemented, {"\"Llama\""});
}

TEST(ModelConfigTest, AnArchitectureThatWouldGarbleATerminalIsEscaped) {
  const Result<ModelConfig> config =
      MetadataFile().Set("general.architecture", Text("\x1b[2J\n")).Read();

  ASSERT_FALSE(config.ok());
  EXPECT_THAT(config.status().message(),
              AllOf(::testing::Not(HasSubstr("\x1b")), ::testing::Not(HasSubstr("\n"))));
}

TEST(ModelConfigTest, EachRequiredKeyIsNamedWhenItIsMissing) {
  for (const char* key :
       {"block_count", "embedding_length", "feed_forward_length", "attention.head_count",
        "context_length", "attention.layer_norm_rms_epsilon"}) {
    ExpectRefused(MetadataFile().Remove(key), StatusCode::kNotFound,
                  {std::string("llama.") + key, "missing"});
  }
  ExpectRefused(MetadataFile().Remove("general.architecture"), StatusCode::kNotFound,
                {"general.architecture", "missing"});
}

TEST(ModelConfigTest, EachCountOutOfItsRangeIsRefusedWithValueAndLimit) {
  const struct {
    const char* key;
    uint32_t too_large;
    const char* limit;
  } cases[] = {
      {"block_count", 100000, "[1, 1024]"},
      {"embedding_length", 262145, "[1, 262144]"},
      {"feed_forward_length", 262145, "[1, 262144]"},
      {"attention.head_count", 1025, "[1, 1024]"},
      {"attention.head_count_kv", 1025, "[1, 1024]"},
      {"attention.key_length", 257, "[1, 256]"},
      {"attention.value_length", 257, "[1, 256]"},
      {"rope.dimension_count", 257, "[1, 256]"},
      {"context_length", 134217729, "[1, 134217728]"},
      {"rope.scaling.original_context_length", 134217729, "[1, 134217728]"},
  };
  for (const auto& c : cases) {
    const std::string key = std::string("llama.") + c.key;
    ExpectRefused(MetadataFile().Set(c.key, Uint(0)), StatusCode::kDataLoss,
                  {key, "is 0", c.limit});
    ExpectRefused(MetadataFile().Set(c.key, Uint(c.too_large)), StatusCode::kDataLoss,
                  {key, "is " + std::to_string(c.too_large), c.limit});
    ExpectRefused(MetadataFile().Set(c.key, Int(-1)), StatusCode::kDataLoss, {key, "-1"});
    ExpectRefused(MetadataFile().Set(c.key, Text("2")), StatusCode::kDataLoss, {key, "string"});
    ExpectRefused(MetadataFile().Set(c.key, Float(2.0f)), StatusCode::kDataLoss, {key, "f32"});
  }
}

TEST(ModelConfigTest, ACountBeyond32BitsIsRefusedRatherThanWrapped) {
  const Write huge = [](GgufBuilder& file, const std::string& key) {
    file.Uint64(key, (uint64_t{1} << 32) + 2);  // 2 after a wrap
  };
  ExpectRefused(MetadataFile().Set("block_count", huge), StatusCode::kDataLoss,
                {"llama.block_count", "4294967298", "[1, 1024]"});
}

TEST(ModelConfigTest, HeadsThatDoNotDivideAreRefused) {
  ExpectRefused(MetadataFile().Set("attention.head_count_kv", Uint(3)), StatusCode::kDataLoss,
                {"llama.attention.head_count", "is 4", "head_count_kv 3"});
  ExpectRefused(MetadataFile().Set("attention.head_count_kv", Uint(8)), StatusCode::kDataLoss,
                {"llama.attention.head_count", "is 4", "head_count_kv 8"});
}

TEST(ModelConfigTest, AHeadDimensionThatTheKernelsCannotServeIsRefused) {
  ExpectRefused(
      MetadataFile().Set("attention.key_length", Uint(20)).Set("attention.value_length", Uint(20)),
      StatusCode::kUnimplemented, {"head dimension is 20", "multiple of 8 up to 256"});
  // The default, 64 / 5 = 12.
  ExpectRefused(
      MetadataFile().Set("attention.head_count", Uint(5)).Set("attention.head_count_kv", Uint(5)),
      StatusCode::kUnimplemented, {"head dimension is 12", "multiple of 8 up to 256"});
}

TEST(ModelConfigTest, ADefaultHeadDimensionOutOfRangeIsRefused) {
  // 264 / 1
  ExpectRefused(MetadataFile()
                    .Set("embedding_length", Uint(264))
                    .Set("attention.head_count", Uint(1))
                    .Set("attention.head_count_kv", Uint(1)),
                StatusCode::kUnimplemented, {"head dimension is 264", "[8, 256]"});
  // 64 / 128 = 0
  ExpectRefused(MetadataFile().Set("attention.head_count", Uint(128)), StatusCode::kUnimplemented,
                {"head dimension is 0", "[8, 256]"});
}

TEST(ModelConfigTest, KeysAndValuesOfUnlikeWidthAreRefused) {
  ExpectRefused(MetadataFile().Set("attention.value_length", Uint(32)), StatusCode::kUnimplemented,
                {"llama.attention.value_length", "is 32", "key length 16"});
}

TEST(ModelConfigTest, ARotatedPartThatIsOddOrLargerThanTheHeadIsRefused) {
  for (uint32_t dimensions : {7u, 15u, 18u}) {
    ExpectRefused(MetadataFile().Set("rope.dimension_count", Uint(dimensions)),
                  StatusCode::kDataLoss,
                  {"llama.rope.dimension_count", "is " + std::to_string(dimensions),
                   "even and at most the head dimension 16"});
  }
  EXPECT_EQ(MustRead(MetadataFile().Set("rope.dimension_count", Uint(2))).rot_dim, 2);
}

TEST(ModelConfigTest, PerLayerArraysThatAgreeCountAsOneValue) {
  const ModelConfig config = MustRead(MetadataFile()
                                          .Set("attention.head_count", Uints({4, 4}))
                                          .Set("attention.head_count_kv", Uints({2, 2}))
                                          .Set("feed_forward_length", Uints({96, 96})));

  EXPECT_EQ(config.num_heads, 4);
  EXPECT_EQ(config.num_kv_heads, 2);
  EXPECT_EQ(config.ffn_dim, 96);
}

TEST(ModelConfigTest, PerLayerArraysThatDifferAreRefusedWithBothValues) {
  ExpectRefused(MetadataFile().Set("attention.head_count_kv", Uints({2, 2, 4})),
                StatusCode::kUnimplemented,
                {"llama.attention.head_count_kv", "differs between layers", "2 and 4"});
}

TEST(ModelConfigTest, PerLayerArraysAreHeldToTheSameLimits) {
  ExpectRefused(MetadataFile().Set("attention.head_count", Uints({0, 0})), StatusCode::kDataLoss,
                {"llama.attention.head_count", "is 0", "[1, 1024]"});
  ExpectRefused(MetadataFile().Set("attention.head_count", Uints({})), StatusCode::kDataLoss,
                {"llama.attention.head_count"});
}

TEST(ModelConfigTest, ConstantsThatAreNotPositiveAndFiniteAreRefused) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const char* key : {"attention.layer_norm_rms_epsilon", "rope.freq_base",
                          "rope.scaling.factor", "rope.scale_linear", "rope.scaling.attn_factor",
                          "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow"}) {
    const std::string full_key = std::string("llama.") + key;
    for (float value : {0.0f, -1.0f, infinity, -infinity, std::nanf("")}) {
      ExpectRefused(MetadataFile().Set(key, Float(value)), StatusCode::kDataLoss,
                    {full_key, "positive and finite"});
    }
    ExpectRefused(MetadataFile().Set(key, Uint(1)), StatusCode::kDataLoss, {full_key, "u32"});
  }
}

// The norm computes in float32, where such a value would be infinite or nothing at all.
TEST(ModelConfigTest, AnEpsilonThatFloat32CannotHoldIsRefused) {
  for (double value : {1e300, 1e-300}) {
    ExpectRefused(MetadataFile().Set("attention.layer_norm_rms_epsilon", Double(value)),
                  StatusCode::kDataLoss, {"llama.attention.layer_norm_rms_epsilon", "float32"});
  }
}

TEST(ModelConfigTest, ConstantsMayBeStoredAsFloat64) {
  EXPECT_EQ(MustRead(MetadataFile().Set("rope.freq_base", Double(123456.5))).rope.base, 123456.5);
}

TEST(ModelConfigTest, EveryKnownRopeScalingIsRead) {
  const std::pair<const char*, RopeScaling> types[] = {{"none", RopeScaling::kNone},
                                                       {"linear", RopeScaling::kLinear},
                                                       {"yarn", RopeScaling::kYarn},
                                                       {"longrope", RopeScaling::kLongRope}};
  for (const auto& [name, scaling] : types) {
    const ModelConfig config = MustRead(MetadataFile()
                                            .Set("rope.scaling.type", Text(name))
                                            .Set("rope.scaling.factor", Float(4.0f))
                                            .Set("rope.scaling.original_context_length", Uint(128))
                                            .Set("rope.scaling.attn_factor", Float(1.25f))
                                            .Set("rope.scaling.yarn_beta_fast", Float(16.0f))
                                            .Set("rope.scaling.yarn_beta_slow", Float(2.0f)));
    EXPECT_EQ(config.rope.scaling, scaling) << name;
    EXPECT_EQ(config.rope.factor, 4.0) << name;
    EXPECT_EQ(config.rope.original_context_length, 128) << name;
    EXPECT_EQ(config.rope.attention_factor, 1.25) << name;
    EXPECT_EQ(config.rope.yarn_beta_fast, 16.0) << name;
    EXPECT_EQ(config.rope.yarn_beta_slow, 2.0) << name;
  }
}

TEST(ModelConfigTest, TheOldKeyScaleLinearMeansLinearScaling) {
  const ModelConfig config = MustRead(MetadataFile().Set("rope.scale_linear", Float(2.5f)));

  EXPECT_EQ(config.rope.scaling, RopeScaling::kLinear);
  EXPECT_EQ(config.rope.factor, 2.5);
}

TEST(ModelConfigTest, AScalingFactorWithoutATypeMeansLinear) {
  const ModelConfig config = MustRead(MetadataFile().Set("rope.scaling.factor", Float(4.0f)));

  EXPECT_EQ(config.rope.scaling, RopeScaling::kLinear);
  EXPECT_EQ(config.rope.factor, 4.0);
}

TEST(ModelConfigTest, AnUnknownRopeScalingIsRefusedWithTheKnownOnes) {
  ExpectRefused(MetadataFile().Set("rope.scaling.type", Text("ntk")), StatusCode::kUnimplemented,
                {"llama.rope.scaling.type", "\"ntk\"", "none, linear, yarn and longrope"});
  ExpectRefused(MetadataFile().Set("rope.scaling.type", Uint(2)), StatusCode::kDataLoss,
                {"llama.rope.scaling.type", "u32", "string"});
}

TEST(ModelConfigTest, AFileWithExpertsIsRefused) {
  ExpectRefused(MetadataFile().Set("expert_count", Uint(8)), StatusCode::kUnimplemented,
                {"llama.expert_count"});
  ExpectRefused(MetadataFile().Set("expert_count", Text("8")), StatusCode::kUnimplemented,
                {"llama.expert_count"});
  EXPECT_TRUE(MetadataFile().Set("expert_count", Uint(0)).Read().ok());
}

TEST(ModelConfigTest, AFileWithSoftCappingIsRefused) {
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    ExpectRefused(MetadataFile().Set(key, Float(30.0f)), StatusCode::kUnimplemented,
                  {std::string("llama.") + key});
  }
}

TEST(ModelConfigTest, AFileWithoutAnEmbeddingMatrixIsRefused) {
  ExpectRefused(MetadataFile().Embedding(std::nullopt), StatusCode::kDataLoss,
                {"token_embd.weight", "missing"});
  ExpectRefused(MetadataFile().Embedding(std::vector<int64_t>{64}), StatusCode::kDataLoss,
                {"token_embd.weight", "two dimensions"});
}

TEST(ModelConfigTest, ANameOfTheWrongTypeIsRefused) {
  ExpectRefused(MetadataFile().Set("general.name", Uint(1)), StatusCode::kDataLoss,
                {"general.name", "string"});
}

}  // namespace
}  // namespace octavo::model
