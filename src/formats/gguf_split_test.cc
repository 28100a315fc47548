#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "formats/gguf_builder.h"
#include "formats/gguf_file.h"

namespace octavo::formats {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr std::array<float, 1> kOne = {1.0f};
constexpr std::array<float, 1> kTwo = {2.0f};

GgufBuilder ShardBuilder(uint16_t no, uint16_t count, int32_t num_tensors) {
  return GgufBuilder()
      .Uint16("split.no", no)
      .Uint16("split.count", count)
      .Int32("split.tensors.count", num_tensors);
}

std::string ErrorOf(const std::vector<std::vector<std::byte>>& shards) {
  const std::vector<std::span<const std::byte>> spans(shards.begin(), shards.end());
  const Result<GgufFile> file = GgufFile::FromShards(spans, "m");
  EXPECT_FALSE(file.ok());
  return file.status().message();
}

TEST(GgufSplitTest, JoinsTheTensorsOfAllShardsAndTakesMetadataFromTheFirst) {
  const std::vector<std::byte> first =
      ShardBuilder(0, 2, 2).String("general.name", "first").Tensor("b", {1}, kOne).Build();
  const std::vector<std::byte> second =
      ShardBuilder(1, 2, 2).String("other", "second").Tensor("a", {1}, kTwo).Build();
  const std::array<std::span<const std::byte>, 2> shards = {first, second};

  const Result<GgufFile> file = GgufFile::FromShards(shards);

  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->num_shards(), 2);
  EXPECT_EQ(file->file_bytes(), first.size() + second.size());
  EXPECT_EQ(file->GetString("general.name").value(), "first");
  EXPECT_EQ(file->Find("other"), nullptr);
  ASSERT_EQ(file->tensors().size(), 2u);
  const GgufTensor* a = file->FindTensor("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->shard, 1);
  EXPECT_TRUE(std::ranges::equal(a->stored, std::as_bytes(std::span(kTwo))));
  EXPECT_EQ(file->FindTensor("b")->shard, 0);
}

TEST(GgufSplitTest, ACountOfZeroMarksAFileMergedFromShards) {
  const std::vector<std::byte> bytes = ShardBuilder(0, 0, 9).Tensor("a", {1}, kOne).Build();

  EXPECT_TRUE(GgufFile::FromBytes(bytes).ok());
}

TEST(GgufSplitTest, AMissingShardIsReported) {
  EXPECT_THAT(ErrorOf({ShardBuilder(0, 3, 0).Build(), ShardBuilder(1, 3, 0).Build()}),
              HasSubstr("split.count is 3, but 2 shards were given"));
}

TEST(GgufSplitTest, ShardsInTheWrongOrderAreReported) {
  EXPECT_THAT(ErrorOf({ShardBuilder(0, 2, 0).Build(), ShardBuilder(0, 2, 0).Build()}),
              HasSubstr("m shard 2: split.no is 0; it must be 1"));
}

TEST(GgufSplitTest, ShardsThatDisagreeOnTheCountAreReported) {
  EXPECT_THAT(ErrorOf({ShardBuilder(0, 2, 0).Build(), ShardBuilder(1, 7, 0).Build()}),
              HasSubstr("m shard 2: split.count is 7, but the first shard says 2"));
}

TEST(GgufSplitTest, AShardWithoutItsKeysIsReported) {
  EXPECT_THAT(ErrorOf({ShardBuilder(0, 2, 0).Build(), GgufBuilder().Uint16("split.no", 1).Build()}),
              HasSubstr("m shard 2: key split.count is missing"));
}

TEST(GgufSplitTest, AShardKeyOfTheWrongTypeIsReported) {
  EXPECT_THAT(ErrorOf({ShardBuilder(0, 2, 0).Build(),
                       GgufBuilder().String("split.no", "1").Uint16("split.count", 2).Build()}),
              HasSubstr("key split.no is \"1\" (string)"));
  EXPECT_THAT(ErrorOf({GgufBuilder().Float32("split.count", 2.0f).Build()}),
              HasSubstr("key \"split.count\" is 2 (f32)"));
}

TEST(GgufSplitTest, ATensorCountThatDoesNotAddUpIsReported) {
  const auto shards = [](int32_t num_tensors) {
    return std::vector<std::vector<std::byte>>{
        ShardBuilder(0, 2, num_tensors).Tensor("a", {1}, kOne).Build(),
        ShardBuilder(1, 2, num_tensors).Tensor("b", {1}, kOne).Build()};
  };

  EXPECT_THAT(ErrorOf(shards(3)), HasSubstr("split.tensors.count is 3, but the shards hold 2"));
  EXPECT_THAT(ErrorOf(shards(-1)), HasSubstr("key \"split.tensors.count\" is -1 (i32)"));
}

TEST(GgufSplitTest, ATensorNameInTwoShardsIsReported) {
  EXPECT_THAT(ErrorOf({ShardBuilder(0, 2, 2).Tensor("a", {1}, kOne).Build(),
                       ShardBuilder(1, 2, 2).Tensor("a", {1}, kOne).Build()}),
              HasSubstr("tensor \"a\" appears twice"));
}

TEST(GgufSplitTest, ACountBeyondTheLimitIsReported) {
  EXPECT_THAT(ErrorOf({GgufBuilder().Uint64("split.count", uint64_t{1} << 63).Build()}),
              HasSubstr("split.count is 9223372036854775808; the limit is 65535"));
}

class GgufSplitFilesTest : public ::testing::Test {
 protected:
  GgufSplitFilesTest()
      : folder_(std::filesystem::temp_directory_path() /
                ("octavo_gguf_split_test_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~GgufSplitFilesTest() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::vector<std::byte>& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    return folder_ / name;
  }

  std::filesystem::path folder_;
};

TEST_F(GgufSplitFilesTest, OpensTheOtherShardsByName) {
  const std::string path =
      Write("m-00001-of-00002.gguf", ShardBuilder(0, 2, 2).Tensor("a", {1}, kOne).Build());
  Write("m-00002-of-00002.gguf", ShardBuilder(1, 2, 2).Tensor("b", {1}, kTwo).Build());

  const Result<GgufFile> file = GgufFile::Open(path);

  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->num_shards(), 2);
  EXPECT_TRUE(std::ranges::equal(file->FindTensor("b")->stored, std::as_bytes(std::span(kTwo))));
}

TEST_F(GgufSplitFilesTest, AnAbsentShardIsNamed) {
  const std::string path = Write("m-00001-of-00002.gguf", ShardBuilder(0, 2, 0).Build());

  const Result<GgufFile> file = GgufFile::Open(path);

  EXPECT_EQ(file.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(file.status().message(), HasSubstr("m-00002-of-00002.gguf: cannot open"));
}

TEST_F(GgufSplitFilesTest, ALaterShardIsRefusedAndTheFirstIsNamed) {
  const std::string path = Write("m-00002-of-00002.gguf", ShardBuilder(1, 2, 0).Build());

  const Result<GgufFile> file = GgufFile::Open(path);

  EXPECT_EQ(file.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(file.status().message(), HasSubstr("split.no is 1"));
  EXPECT_THAT(file.status().message(), EndsWith("-00001-of-00002.gguf"));
}

TEST_F(GgufSplitFilesTest, AFirstShardUnderAnotherNameIsRefused) {
  const std::string path = Write("model.gguf", ShardBuilder(0, 2, 0).Build());

  const Result<GgufFile> file = GgufFile::Open(path);

  EXPECT_THAT(file.status().message(),
              HasSubstr("split.count is 2, so the first shard's name must end in "
                        "-00001-of-00002.gguf"));
}

TEST_F(GgufSplitFilesTest, AnUnsplitFileMayHaveAnyName) {
  const std::string path = Write("anything", GgufBuilder().Tensor("a", {1}, kOne).Build());

  EXPECT_TRUE(GgufFile::Open(path).ok());
}

}  // namespace
}  // namespace octavo::formats
