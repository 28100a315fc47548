#include "base/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
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

// What /proc/self/smaps says of the mapping that begins at `begin`, in bytes.
int64_t ResidentBytesAt(const std::byte* begin) {
  std::ostringstream address;
  address << std::hex << reinterpret_cast<uintptr_t>(begin) << '-';
  std::ifstream file("/proc/self/smaps");
  bool is_at = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(address.str())) is_at = true;
    if (is_at && line.starts_with("Rss:")) return std::stoll(line.substr(4)) * 1024;
  }
  return -1;
}

TEST_F(MappedFileTest, ReleasedPagesLeaveTheMemoryAndComeBackWhenTheyAreRead) {
  std::string content(1 << 20, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7 + i / 4096);
  const Result<MappedFile> file = MappedFile::Open(Write("large", content));
  ASSERT_TRUE(file.ok()) << file.status().message();
  const std::span<const std::byte> bytes = file->bytes();
  const auto is_whole = [&] {
    return std::memcmp(bytes.data(), content.data(), bytes.size()) == 0;
  };
  ASSERT_TRUE(is_whole());
  ASSERT_EQ(ResidentBytesAt(bytes.data()), 1 << 20);

  file->ReleasePages(bytes.subspan(5, (1 << 19) - 5));

  EXPECT_EQ(ResidentBytesAt(bytes.data()), 1 << 19);
  EXPECT_TRUE(is_whole());
  EXPECT_EQ(ResidentBytesAt(bytes.data()), 1 << 20);
}

TEST_F(MappedFileTest, ReleasingNothingIsNothing) {
  const Result<MappedFile> file = MappedFile::Open(Write("empty", ""));
  ASSERT_TRUE(file.ok()) << file.status().message();

  file->ReleasePages(file->bytes());
}

}  // namespace
}  // namespace octavo::base
