#include "formats/gguf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "formats/gguf_builder.h"

namespace octavo::formats {
namespace {

using tensor::DType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One value of each type and one array of each kind that has an accessor.
GgufBuilder EveryType() {
  const std::array<std::string, 3> strings = {"a", "", "ccc"};
  const std::array<float, 2> floats = {0.5f, -2.0f};
  const std::array<int32_t, 3> ints = {1, -2, 3};
  const std::array<uint32_t, 2> uints = {7, 4000000000u};
  return GgufBuilder()
      .Uint8("u8", 255)
      .Int8("i8", -128)
      .Uint16("u16", 65535)
      .Int16("i16", -32768)
      .Uint32("u32", 4294967295u)
      .Int32("i32", -5)
      .Float32("f32", 1e-5f)
      .Bool("true", true)
      .Bool("false", false)
      .String("string", "llama")
      .Uint64("u64", 18446744073709551615u)
      .Int64("i64", -1)
      .Float64("f64", 0.1)
      .Strings("strings", strings)
      .Floats("floats", floats)
      .Int32s("ints", ints)
      .Uint32s("uints", uints);
}

TEST(GgufFileTest, GivesEveryTypeOfValueInFileOrder) {
  const std::vector<std::byte> bytes = EveryType().Build();

  const Result<GgufFile> file = GgufFile::FromBytes(bytes);

  ASSERT_TRUE(file.ok()) << file.status().message();
  std::vector<std::string> shown;
  for (const GgufKeyValue& pair : file->key_values()) {
    shown.push_back(std::string(pair.key) + " " + DescribeType(pair.value) + " " +
                    FormatValue(pair.value));
  }
  EXPECT_THAT(shown, ElementsAre("u8 u8 255", "i8 i8 -128", "u16 u16 65535", "i16 i16 -32768",
                                 "u32 u32 4294967295", "i32 i32 -5", "f32 f32 1e-05",
                                 "true bool true", "false bool false", "string string \"llama\"",
                                 "u64 u64 18446744073709551615", "i64 i64 -1", "f64 f64 0.1",
                                 "strings string[] string[3] [\"a\", \"\", \"ccc\"]",
                                 "floats f32[] f32[2] [0.5, -2]", "ints i32[] i32[3] [1, -2, 3]",
                                 "uints u32[] u32[2] [7, 4000000000]"));
}

TEST(GgufFileTest, AccessorsConvertWithoutLoss) {
  const std::vector<std::byte> bytes = EveryType().Build();
  const Result<GgufFile> file = GgufFile::FromBytes(bytes);
  ASSERT_TRUE(file.ok()) << file.status().message();

  EXPECT_EQ(file->GetUint("u8").value(), 255u);
  EXPECT_EQ(file->GetUint("u64").value(), 18446744073709551615u);
  EXPECT_EQ(file->GetInt("i8").value(), -128);
  EXPECT_EQ(file->GetInt("u32").value(), 4294967295);
  EXPECT_EQ(static_cast<float>(file->GetFloat("f32").value()), 1e-5f);
  EXPECT_EQ(file->GetFloat("f64").value(), 0.1);
  EXPECT_TRUE(file->GetBool("true").value());
  EXPECT_FALSE(file->GetBool("false").value());
  EXPECT_EQ(file->GetString("string").value(), "llama");
  EXPECT_THAT(file->GetStrings("strings").value(), ElementsAre("a", "", "ccc"));
  EXPECT_THAT(file->GetFloats("floats").value(), ElementsAre(0.5f, -2.0f));
  EXPECT_THAT(file->GetInt32s("ints").value(), ElementsAre(1, -2, 3));
  EXPECT_THAT(file->GetUints("uints").value(), ElementsAre(7u, 4000000000u));
}

TEST(GgufFileTest, AnAccessorOfTheWrongTypeNamesFileKeyValueAndType) {
  const std::vector<std::byte> bytes = EveryType().Build();
  const Result<GgufFile> opened = GgufFile::FromBytes(bytes, "m.gguf");
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const GgufFile& file = *opened;

  const std::vector<std::pair<Status, std::string>> cases = {
      {file.GetUint("i32").status(), "key \"i32\" is -5 (i32)"},
      {file.GetUint("f32").status(), "key \"f32\" is 1e-05 (f32)"},
      {file.GetUint("true").status(), "key \"true\" is true (bool)"},
      {file.GetInt("u64").status(), "key \"u64\" is 18446744073709551615 (u64)"},
      {file.GetFloat("u32").status(), "key \"u32\" is 4294967295 (u32)"},
      {file.GetBool("u8").status(), "key \"u8\" is 255 (u8)"},
      {file.GetString("strings").status(), "key \"strings\" is string[3]"},
      {file.GetStrings("string").status(), "key \"string\" is \"llama\" (string)"},
      {file.GetFloats("ints").status(),
       "key \"ints\" is i32[3] [1, -2, 3] (i32[]); it must be f32[]"},
      {file.GetInt32s("uints").status(), "key \"uints\" is u32[2] [7, 4000000000] (u32[])"},
      {file.GetUints("ints").status(), "key \"ints\" is i32[3] [1, -2, 3] (i32[])"},
      {file.GetUints("floats").status(), "key \"floats\" is f32[2] [0.5, -2] (f32[])"},
      {file.GetUints("u8").status(), "key \"u8\" is 255 (u8)"},
  };
  for (const auto& [status, expected] : cases) {
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << expected;
    EXPECT_THAT(status.message(), HasSubstr("m.gguf: " + expected));
  }
}

TEST(GgufFileTest, AMissingKeyIsNotFoundOrTheFallbackButAWrongTypeIsNeverTheFallback) {
  const std::vector<std::byte> bytes = EveryType().Build();
  const Result<GgufFile> file = GgufFile::FromBytes(bytes, "m.gguf");
  ASSERT_TRUE(file.ok()) << file.status().message();

  EXPECT_EQ(file->Find("absent"), nullptr);
  EXPECT_EQ(file->GetUint("absent").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(file->GetUint("absent").status().message(), "m.gguf: key \"absent\" is missing");
  EXPECT_EQ(file->GetStrings("absent").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(file->GetUintOr("absent", 3).value(), 3u);
  EXPECT_EQ(file->GetFloatOr("absent", 2.5).value(), 2.5);
  EXPECT_TRUE(file->GetBoolOr("absent", true).value());
  EXPECT_EQ(file->GetStringOr("absent", "x").value(), "x");
  EXPECT_EQ(file->GetUintOr("u8", 3).value(), 255u);
  EXPECT_EQ(file->GetUintOr("string", 3).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(file->GetFloatOr("string", 3).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(file->GetBoolOr("string", false).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(file->GetStringOr("u8", "x").status().code(), StatusCode::kDataLoss);
}

TEST(GgufFileTest, GivesTensorsInFileOrderWithTheirBytes) {
  const std::array<float, 6> matrix = {1, 2, 3, 4, 5, 6};
  const std::vector<std::byte> blocks(2 * 20, std::byte{0x5a});
  const std::vector<std::byte> bytes = GgufBuilder()
                                           .Tensor("z", {3, 2}, matrix)
                                           .Tensor("a", DType::kQ4_1, {32, 1, 2}, blocks)
                                           .Build();

  const Result<GgufFile> file = GgufFile::FromBytes(bytes);

  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ(file->tensors().size(), 2u);
  const GgufTensor& z = file->tensors()[0];
  EXPECT_EQ(z.name, "z");
  EXPECT_EQ(z.dtype, DType::kF32);
  EXPECT_EQ(z.num_dims, 2);
  EXPECT_THAT(z.dims, ElementsAre(3, 2, 1, 1));
  EXPECT_EQ(z.num_elements, 6);
  EXPECT_EQ(z.shard, 0);
  EXPECT_TRUE(std::ranges::equal(z.stored, std::as_bytes(std::span(matrix))));
  const GgufTensor* a = file->FindTensor("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->num_dims, 3);
  EXPECT_EQ(a->num_elements, 64);
  EXPECT_TRUE(std::ranges::equal(a->stored, blocks));
  EXPECT_EQ((a->stored.data() - bytes.data()) % 32, 0);
  EXPECT_EQ(file->FindTensor("b"), nullptr);
}

TEST(GgufFileTest, ReleasingPagesLeavesBorrowedBytesAsTheyAre) {
  const std::vector<std::byte> blocks(1 << 20, std::byte{0x5a});
  const std::vector<std::byte> bytes =
      GgufBuilder().Tensor("a", DType::kF32, {1 << 18}, blocks).Build();
  const Result<GgufFile> file = GgufFile::FromBytes(bytes);
  ASSERT_TRUE(file.ok()) << file.status().message();

  file->ReleasePages(file->FindTensor("a")->stored);

  EXPECT_TRUE(std::ranges::equal(file->FindTensor("a")->stored, blocks));
}

TEST(GgufFileTest, ReadsVersionTwoAndAFileOfAVocabularyAlone) {
  const std::vector<std::byte> bytes = GgufBuilder(2).String("general.name", "v").Build();

  const Result<GgufFile> file = GgufFile::FromBytes(bytes);

  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->version(), 2u);
  EXPECT_TRUE(file->tensors().empty());
  EXPECT_EQ(file->file_bytes(), bytes.size());
}

TEST(GgufFileTest, HonoursEveryAlignmentUpToTheLimit) {
  const std::array<float, 1> one = {1.0f};
  for (uint32_t alignment = 1; alignment <= 1u << 20; alignment *= 2) {
    const std::vector<std::byte> bytes =
        GgufBuilder().Alignment(alignment).Tensor("a", {1}, one).Tensor("b", {1}, one).Build();
    const Result<GgufFile> file = GgufFile::FromBytes(bytes);
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_EQ(file->alignment(), alignment);
    EXPECT_EQ((file->tensors()[1].stored.data() - bytes.data()) % alignment, 0u);
    EXPECT_TRUE(std::ranges::equal(file->tensors()[1].stored, std::as_bytes(std::span(one))));
  }
}

TEST(GgufFileTest, TensorsMayLieInAnyOrderAndLeaveGaps) {
  const std::array<float, 32> values = {};
  const std::array<uint64_t, 1> dims = {8};
  const std::vector<std::byte> bytes =
      GgufBuilder()
          .RawTensor("late", 0, dims, {}, 96)
          .RawTensor("early", 0, dims, std::as_bytes(std::span(values)), 0)
          .Build();

  const Result<GgufFile> file = GgufFile::FromBytes(bytes);

  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->tensors()[0].stored.data() - file->tensors()[1].stored.data(), 96);
}

TEST(GgufFileTest, ViewsSurviveAMoveOfTheFile) {
  const std::vector<std::byte> bytes = EveryType().Build();
  Result<GgufFile> opened = GgufFile::FromBytes(bytes);
  const std::span<const std::string_view> strings = opened->GetStrings("strings").value();

  const GgufFile moved = std::move(*opened);

  EXPECT_THAT(strings, ElementsAre("a", "", "ccc"));
  EXPECT_EQ(moved.GetStrings("strings").value().data(), strings.data());
  EXPECT_EQ(moved.GetUint("u8").value(), 255u);
}

// The figures are those of the file's card: 30 layers, 9 heads, 3 key-value heads, a vocabulary of
// 49,152, tied output.
TEST(GgufFileTest, ReadsTheDefaultModel) {
  const char* given = std::getenv("OCTAVO_MODEL");
  const char* home = std::getenv("HOME");
  const std::string path = given != nullptr ? given
                                            : std::string(home != nullptr ? home : "") +
                                                  "/.cache/octavo/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no model file at " << path;

  const Result<GgufFile> file = GgufFile::Open(path);

  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->version(), 3u);
  EXPECT_EQ(file->file_bytes(), std::filesystem::file_size(path));
  ASSERT_EQ(file->tensors().size(), 272u);
  std::map<DType, int> num_tensors;
  for (const GgufTensor& tensor : file->tensors()) ++num_tensors[tensor.dtype];
  EXPECT_EQ(num_tensors[DType::kQ4_1], 210);
  EXPECT_EQ(num_tensors[DType::kQ8_0], 1);
  EXPECT_EQ(num_tensors[DType::kF32], 61);
  EXPECT_EQ(file->GetString("general.architecture").value(), "llama");
  EXPECT_EQ(file->GetUint("llama.block_count").value(), 30u);
  EXPECT_EQ(file->GetUint("llama.embedding_length").value(), 576u);
  EXPECT_EQ(file->GetUint("llama.attention.head_count").value(), 9u);
  EXPECT_EQ(file->GetUint("llama.attention.head_count_kv").value(), 3u);
  EXPECT_EQ(file->GetFloat("llama.rope.freq_base").value(), 100000.0);
  const auto tokens = file->GetStrings("tokenizer.ggml.tokens").value();
  EXPECT_EQ(tokens.size(), 49152u);
  EXPECT_EQ(tokens[0], "<|endoftext|>");
  EXPECT_EQ(file->GetInt32s("tokenizer.ggml.token_type").value().size(), 49152u);
  EXPECT_EQ(file->GetStrings("tokenizer.ggml.merges").value().size(), 48900u);
  const GgufTensor* embedding = file->FindTensor("token_embd.weight");
  ASSERT_NE(embedding, nullptr);
  EXPECT_THAT(embedding->dims, ElementsAre(576, 49152, 1, 1));
  EXPECT_EQ(file->FindTensor("output.weight"), nullptr);
}

}  // namespace
}  // namespace octavo::formats
