// Files that the PyPI package `gguf` wrote (tests/tools/make_gguf_cases.py), which are also the
// fuzzer's seeds.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "formats/gguf_file.h"

namespace octavo::formats {
namespace {

using ::testing::ElementsAre;

std::string CorpusFolder() { return std::string(OCTAVO_SOURCE_DIR) + "/fuzz/corpus/gguf/"; }

TEST(GgufCorpusTest, ValidFilesOpenAndBadOnesAreRefused) {
  int num_valid = 0;
  int num_bad = 0;
  for (const auto& entry : std::filesystem::directory_iterator(CorpusFolder())) {
    const std::string name = entry.path().filename();
    const Result<GgufFile> file = GgufFile::Open(entry.path());
    if (name.starts_with("valid_")) {
      EXPECT_TRUE(file.ok()) << file.status().message();
      ++num_valid;
    } else if (name.starts_with("bad_")) {
      EXPECT_FALSE(file.ok()) << name;
      ++num_bad;
    }
  }

  EXPECT_GE(num_valid, 5);
  EXPECT_GE(num_bad, 3);
}

TEST(GgufCorpusTest, ScalarsReadInBothVersionsAsTheyWereWritten) {
  for (const uint32_t version : {2u, 3u}) {
    const std::string name = version == 2 ? "valid_version2.gguf" : "valid_scalars.gguf";
    const Result<GgufFile> file = GgufFile::Open(CorpusFolder() + name);
    ASSERT_TRUE(file.ok()) << file.status().message();

    EXPECT_EQ(file->version(), version);
    EXPECT_EQ(file->GetString("general.architecture").value(), "llama");
    EXPECT_EQ(file->GetUint("u8").value(), 200u);
    EXPECT_EQ(file->GetInt("i8").value(), -100);
    EXPECT_EQ(file->GetUint("u16").value(), 60000u);
    EXPECT_EQ(file->GetInt("i16").value(), -30000);
    EXPECT_EQ(file->GetUint("u32").value(), 4000000000u);
    EXPECT_EQ(file->GetInt("i32").value(), -2000000000);
    EXPECT_EQ(file->GetFloat("f32").value(), 0.5);
    EXPECT_TRUE(file->GetBool("bool").value());
    EXPECT_EQ(file->GetString("string").value(), "text");
    EXPECT_EQ(file->GetUint("u64").value(), uint64_t{1} << 63);
    EXPECT_EQ(file->GetInt("i64").value(), -(int64_t{1} << 62));
    EXPECT_EQ(file->GetFloat("f64").value(), 0.25);
  }
}

TEST(GgufCorpusTest, ArraysReadAsTheyWereWritten) {
  const Result<GgufFile> file = GgufFile::Open(CorpusFolder() + "valid_arrays.gguf");
  ASSERT_TRUE(file.ok()) << file.status().message();

  EXPECT_THAT(file->GetStrings("strings").value(), ElementsAre("a", "", "Ġt"));
  EXPECT_THAT(file->GetInt32s("ints").value(), ElementsAre(1, -2, 3));
  EXPECT_THAT(file->GetFloats("floats").value(), ElementsAre(0.5f, -0.25f));
  EXPECT_EQ(FormatValue(*file->Find("bools")), "bool[2] [true, false]");
  EXPECT_THAT(file->GetStrings("tokenizer.ggml.tokens").value(), ElementsAre("<s>", "a", "b"));
  EXPECT_THAT(file->GetInt32s("tokenizer.ggml.token_type").value(), ElementsAre(3, 1, 1));
  EXPECT_THAT(file->GetFloats("tokenizer.ggml.scores").value(), ElementsAre(0.0f, -1.0f, -2.0f));
}

TEST(GgufCorpusTest, TensorsOfEveryTypeHaveTheShapeThatWasWritten) {
  const Result<GgufFile> file = GgufFile::Open(CorpusFolder() + "valid_tensors.gguf");
  ASSERT_TRUE(file.ok()) << file.status().message();

  EXPECT_EQ(file->tensors().size(), 14u);
  for (const GgufTensor& tensor : file->tensors()) {
    const std::string type(tensor::Traits(tensor.dtype).name);
    EXPECT_EQ(tensor.name, type + ".weight");
    EXPECT_EQ(tensor.num_dims, 2) << type;
    EXPECT_EQ(tensor.dims[1], tensor.dtype == tensor::DType::kF32 ? 3 : 2) << type;
  }
  EXPECT_EQ(file->FindTensor("Q6_K.weight")->dims[0], 256);
  EXPECT_EQ(file->FindTensor("F32.weight")->dims[0], 2);
}

TEST(GgufCorpusTest, AnotherAlignmentReadsTheSameValues) {
  const Result<GgufFile> file = GgufFile::Open(CorpusFolder() + "valid_alignment.gguf");
  ASSERT_TRUE(file.ok()) << file.status().message();

  EXPECT_EQ(file->alignment(), 64u);
  const std::vector<float> ones(8, 1.0f);
  EXPECT_TRUE(std::ranges::equal(file->FindTensor("a")->stored, std::as_bytes(std::span(ones))));
}

}  // namespace
}  // namespace octavo::formats
