#include "formats/gguf_value.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace octavo::formats {
namespace {

template <typename T>
GgufArray ArrayOf(GgufType type, const std::vector<T>& values) {
  return {type, values.size(), std::as_bytes(std::span(values)), {}};
}

TEST(GgufValueTest, TheHeldAlternativeIsTheTypeOnDisk) {
  EXPECT_EQ(TypeOf(GgufValue(uint8_t{1})), GgufType::kUint8);
  EXPECT_EQ(TypeOf(GgufValue(int16_t{1})), GgufType::kInt16);
  EXPECT_EQ(TypeOf(GgufValue(1.0f)), GgufType::kFloat32);
  EXPECT_EQ(TypeOf(GgufValue(true)), GgufType::kBool);
  EXPECT_EQ(TypeOf(GgufValue(std::string_view("a"))), GgufType::kString);
  EXPECT_EQ(TypeOf(GgufValue(GgufArray{})), GgufType::kArray);
  EXPECT_EQ(TypeOf(GgufValue(uint64_t{1})), GgufType::kUint64);
  EXPECT_EQ(TypeOf(GgufValue(1.0)), GgufType::kFloat64);
}

TEST(GgufValueTest, FormatsScalarsShortly) {
  EXPECT_EQ(FormatValue(uint8_t{200}), "200");
  EXPECT_EQ(FormatValue(int8_t{-5}), "-5");
  EXPECT_EQ(FormatValue(1e-5f), "1e-05");
  EXPECT_EQ(FormatValue(0.1), "0.1");
  EXPECT_EQ(FormatValue(true), "true");
  EXPECT_EQ(FormatValue(uint64_t{18446744073709551615u}), "18446744073709551615");
  EXPECT_EQ(FormatValue(std::string_view("llama")), "\"llama\"");
}

TEST(GgufValueTest, FormatsTheFirstThreeElementsOfAnArray) {
  const std::vector<int32_t> three = {1, -2, 3};
  const std::vector<float> four = {0.5f, 1.0f, 2.0f, 3.0f};
  const std::array<std::string_view, 2> strings = {"a", "b c"};

  EXPECT_EQ(FormatValue(ArrayOf(GgufType::kInt32, three)), "i32[3] [1, -2, 3]");
  EXPECT_EQ(FormatValue(ArrayOf(GgufType::kFloat32, four)), "f32[4] [0.5, 1, 2, ...]");
  EXPECT_EQ(FormatValue(GgufArray{GgufType::kString, 2, {}, strings}),
            "string[2] [\"a\", \"b c\"]");
  EXPECT_EQ(FormatValue(GgufArray{GgufType::kBool, 0, {}, {}}), "bool[0] []");
}

TEST(GgufValueTest, DescribesTypes) {
  EXPECT_EQ(DescribeType(uint32_t{1}), "u32");
  EXPECT_EQ(DescribeType(std::string_view("x")), "string");
  EXPECT_EQ(DescribeType(ArrayOf<double>(GgufType::kFloat64, {})), "f64[]");
}

TEST(GgufValueTest, ElementsOfEveryTypeAreReadFromAnyAddress) {
  const auto element = [](GgufType type, std::string_view stored) {
    std::vector<std::byte> shifted(1);
    for (const char c : stored) shifted.push_back(static_cast<std::byte>(c));
    const size_t size = stored.size() / TypeBytes(type);
    const GgufArray array = {type, size, std::span(shifted).subspan(1), {}};
    const GgufValue last = ElementAt(array, size - 1);
    return DescribeType(last) + " " + FormatValue(last);
  };

  EXPECT_EQ(element(GgufType::kUint8, "\x01\xff"), "u8 255");
  EXPECT_EQ(element(GgufType::kInt8, "\x01\xff"), "i8 -1");
  EXPECT_EQ(element(GgufType::kUint16, {"\0\0\x01\x80", 4}), "u16 32769");
  EXPECT_EQ(element(GgufType::kInt16, {"\0\0\xfe\xff", 4}), "i16 -2");
  EXPECT_EQ(element(GgufType::kUint32, {"\0\0\0\0\1\2\0\x80", 8}), "u32 2147484161");
  EXPECT_EQ(element(GgufType::kInt32, "\xfd\xff\xff\xff"), "i32 -3");
  EXPECT_EQ(element(GgufType::kFloat32, {"\0\0\xc0\x3f", 4}), "f32 1.5");
  EXPECT_EQ(element(GgufType::kBool, {"\0\1", 2}), "bool true");
  EXPECT_EQ(element(GgufType::kUint64, {"\1\0\0\0\0\0\0\x80", 8}), "u64 9223372036854775809");
  EXPECT_EQ(element(GgufType::kInt64, "\xfc\xff\xff\xff\xff\xff\xff\xff"), "i64 -4");
  EXPECT_EQ(element(GgufType::kFloat64, {"\0\0\0\0\0\0\xf8\x3f", 8}), "f64 1.5");
}

TEST(GgufValueTest, QuotesKeepUtf8AndEscapeWhatCouldSteerATerminal) {
  EXPECT_EQ(Quote("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(Quote("Ġ日本😀"), "\"Ġ日本😀\"");
  EXPECT_EQ(Quote("line\nand\ttab"), R"("line\nand\ttab")");
  EXPECT_EQ(Quote("\x1b[31m\x7f"), R"("\x1b[31m\x7f")");
  EXPECT_EQ(Quote("\xc2\x9b"), R"("\xc2\x9b")");
  EXPECT_EQ(Quote(std::string_view("\0", 1)), R"("\x00")");
}

TEST(GgufValueTest, QuotesEscapeBytesThatAreNotUtf8) {
  EXPECT_EQ(Quote("\xff"), R"("\xff")");
  EXPECT_EQ(Quote("\xc3"), R"("\xc3")");
  EXPECT_EQ(Quote("\xc0\x80"), R"("\xc0\x80")");
  EXPECT_EQ(Quote("\xe0\x80\x80"), R"("\xe0\x80\x80")");
  EXPECT_EQ(Quote("\xed\xa0\x80"), R"("\xed\xa0\x80")");
  EXPECT_EQ(Quote("\xf4\x90\x80\x80"), R"("\xf4\x90\x80\x80")");
  EXPECT_EQ(Quote("\xe2\x82"), R"("\xe2\x82")");
}

TEST(GgufValueTest, QuotesCutLongTextBetweenCharacters) {
  EXPECT_EQ(Quote("abcdef", 3), "\"abc...\"");
  EXPECT_EQ(Quote("abcdef", 6), "\"abcdef\"");
  EXPECT_EQ(Quote("ab日c", 4), "\"ab...\"");
}

}  // namespace
}  // namespace octavo::formats
