#include "text/utf8.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstdint>
#include <string>
#include <vector>

namespace octavo::text {
namespace {

const std::string kFffd = "\xEF\xBF\xBD";

// Expected values are those of Python 3's bytes.decode("utf-8", errors="replace").
TEST(Utf8Test, ReplacesEachMaximalSubpartOnce) {
  const std::pair<std::string, std::string> cases[] = {
      {"", ""},
      {"plain", "plain"},
      {"\xC3\xA9", "\xC3\xA9"},
      {"\x80", kFffd},
      {"\xC0\xAF", kFffd + kFffd},
      {"\xE2\x82", kFffd},
      {"\xE2\x82"
       "A",
       kFffd + "A"},
      {"\xED\xA0\x80", kFffd + kFffd + kFffd},
      {"\xE0\x9F\xBF", kFffd + kFffd + kFffd},
      {"\xF0\x9F\x98", kFffd},
      {"\xF0\x9F\x98x", kFffd + "x"},
      {"\xF0\x8F\x80\x80", kFffd + kFffd + kFffd + kFffd},
      {"\xF4\x8F\xBF\xBF", "\xF4\x8F\xBF\xBF"},
      {"\xF4\x90\x80\x80", kFffd + kFffd + kFffd + kFffd},
      {"\xF5\x80", kFffd + kFffd},
      {"\xF0\x9F\xF0\x9F\x98\x80", kFffd + "\xF0\x9F\x98\x80"},
  };
  for (const auto& [bytes, text] : cases) EXPECT_EQ(ReplaceInvalidUtf8(bytes), text);
}

TEST(Utf8Test, NamesTheFirstBadByte) {
  EXPECT_EQ(ValidateUtf8("eight bytes and more, all of them good \xE2\x82\xAC"), std::nullopt);
  EXPECT_EQ(ValidateUtf8("ab\xFF"), 2u);
  EXPECT_EQ(ValidateUtf8("12345678901\xC3"), 11u);
  EXPECT_EQ(ValidateUtf8("\xE2\x82\xAC\xED\xA0\x80"), 3u);
}

TEST(Utf8Test, AgreesWithTheEncodingRuleOnEveryCodePoint) {
  for (uint32_t c = 0; c < 0x110000; ++c) {
    std::string bytes;
    const auto tail = [&](int shift) { bytes += static_cast<char>(0x80 | ((c >> shift) & 0x3F)); };
    if (c < 0x80) {
      bytes += static_cast<char>(c);
    } else if (c < 0x800) {
      bytes += static_cast<char>(0xC0 | (c >> 6));
      tail(0);
    } else if (c < 0x10000) {
      bytes += static_cast<char>(0xE0 | (c >> 12));
      tail(6);
      tail(0);
    } else {
      bytes += static_cast<char>(0xF0 | (c >> 18));
      tail(12);
      tail(6);
      tail(0);
    }
    const bool surrogate = c >= 0xD800 && c < 0xE000;
    ASSERT_EQ(ValidateUtf8(bytes).has_value(), surrogate) << c;
    for (size_t cut = 1; cut < bytes.size() && !surrogate; ++cut) {
      const Utf8Unit unit = NextUtf8Unit(std::string_view(bytes).substr(0, cut));
      ASSERT_EQ(unit.kind, Utf8Kind::kIncomplete) << c;
      ASSERT_EQ(unit.num_bytes, cut) << c;
    }
  }
}

TEST(Utf8Test, StreamInAnyPiecesEqualsTheWhole) {
  const bool held = rc::check("stream = whole", [](const std::vector<uint8_t>& raw) {
    // Bytes near the borders of the table, so that most sequences are nearly valid.
    constexpr uint8_t kBytes[] = {0x41, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC1, 0xC2,
                                  0xE0, 0xE2, 0xED, 0xEF, 0xF0, 0xF3, 0xF4, 0xF5, 0xFF};
    std::string bytes;
    for (const uint8_t b : raw) bytes += static_cast<char>(kBytes[b % sizeof(kBytes)]);
    std::string text;
    Utf8Stream stream;
    for (size_t pos = 0; pos < bytes.size();) {
      const size_t length = 1 + raw[pos] / 64;
      std::string piece;
      stream.Push(std::string_view(bytes).substr(pos, length), &piece);
      RC_ASSERT(!ValidateUtf8(piece).has_value());
      text += piece;
      pos = std::min(pos + length, bytes.size());
      RC_ASSERT(text.size() <= ReplaceInvalidUtf8(bytes.substr(0, pos)).size());
    }
    stream.Flush(&text);
    RC_ASSERT(text == ReplaceInvalidUtf8(bytes));
  });
  EXPECT_TRUE(held);
}

}  // namespace
}  // namespace octavo::text
