#include "base/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

namespace octavo::base {
namespace {

using ::testing::HasSubstr;

class MappedFileTest : public ::testing::Test {
 protected:
  MappedFileTest()
      : folder_(std::filesystem::temp_directory_path() /
                ("octavo_mapped_file_test_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~MappedFileTest() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }

  std::filesystem::path folder_;
};

std::string TextOf(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST_F(MappedFileTest, GivesTheFilesBytesAndKeepsTheirAddressWhenMoved) {
  Result<MappedFile> opened = MappedFile::Open(Write("file", "abc"));
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const std::byte* address = opened->bytes().data();

  const MappedFile moved = std::move(*opened);

  EXPECT_EQ(TextOf(moved), "abc");
  EXPECT_EQ(moved.bytes().data(), address);
}

TEST_F(MappedFileTest, MoveAssignmentReplacesTheMapping) {
  Result<MappedFile> first = MappedFile::Open(Write("first", "first"));
  Result<MappedFile> second = MappedFile::Open(Write("second", "second"));

  *first = std::move(*second);

  EXPECT_EQ(TextOf(*first), "second");
}

TEST_F(MappedFileTest, AnEmptyFileHasNoBytes) {
  const Result<MappedFile> opened = MappedFile::Open(Write("empty", ""));

  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_TRUE(opened->bytes().empty());
}

TEST_F(MappedFileTest, AMissingFileIsNotFoundAndNamed) {
  const std::string path = folder_ / "absent";

  const Result<MappedFile> opened = MappedFile::Open(path);

  EXPECT_EQ(opened.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(opened.status().message(), HasSubstr(path));
}

TEST_F(MappedFileTest, AFileThatCannotBeOpenedIsAFailureAndNamed) {
  const std::string path = Write("file", "x") + "/below";

  const Result<MappedFile> opened = MappedFile::Open(path);

  EXPECT_EQ(opened.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(opened.status().message(), HasSubstr(path));
}

TEST_F(MappedFileTest, AFolderOrANamedPipeIsRefusedWithoutWaiting) {
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);

  for (const std::string& path : {folder_.string(), pipe}) {
    const Result<MappedFile> opened = MappedFile::Open(path);
    EXPECT_EQ(opened.status().message(), path + ": not a regular file");
    EXPECT_EQ(opened.status().code(), StatusCode::kDataLoss);  // a failure, not a usage error
  }
}

}  // namespace
}  // namespace octavo::base
