#include "jinja/string_escapes.h"

#include <charconv>

#include "jinja/unicode.h"

namespace octavo::jinja {
namespace {

// Reads `num_digits` hexadecimal digits; -1 if they are not there.
int64_t ReadHex(std::string_view source, size_t at, size_t num_digits) {
  const std::string_view digits = source.substr(at, num_digits);
  int64_t value = 0;
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  const bool good =
      digits.size() == num_digits && end.ptr == digits.data() + digits.size() && digits[0] != '-';
  return good ? value : -1;
}

size_t NumHexDigits(char escape) { return escape == 'x' ? 2 : (escape == 'u' ? 4 : 8); }

// Up to three octal digits from `at` on; moves `at` behind them.
int32_t ReadOctal(std::string_view source, size_t* at) {
  int32_t value = 0;
  for (int i = 0; i < 3 && *at < source.size() && source[*at] >= '0' && source[*at] <= '7'; ++i) {
    value = value * 8 + (source[(*at)++] - '0');
  }
  return value;
}

}  // namespace

std::string Unescape(std::string_view source, std::string* text) {
  constexpr std::string_view kNames = "\\'\"abfnrtv";
  constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
  for (size_t at = 0; at < source.size();) {
    if (source[at] != '\\' || at + 1 == source.size()) {
      text->push_back(source[at++]);
      continue;
    }
    const char escape = source[at + 1];
    const size_t found = kNames.find(escape);
    if (found != std::string_view::npos) {
      text->push_back(kMeanings[found]);
      at += 2;
    } else if (escape == '\n') {
      at += 2;
    } else if (escape >= '0' && escape <= '7') {
      ++at;
      AppendUtf8(ReadOctal(source, &at), text);
    } else if (escape == 'x' || escape == 'u' || escape == 'U') {
      const int64_t code_point = ReadHex(source, at + 2, NumHexDigits(escape));
      if (code_point < 0 || code_point > 0x10FFFF) return "a truncated or wrong \\x or \\u escape";
      if (code_point >= 0xD800 && code_point < 0xE000) return "a surrogate in a string";
      AppendUtf8(static_cast<int32_t>(code_point), text);
      at += 2 + NumHexDigits(escape);
    } else if (escape == 'N') {
      return "\\N{...} in a string is not supported";
    } else {
      text->push_back('\\');
      ++at;
    }
  }
  return "";
}

}  // namespace octavo::jinja
