#include "structured/character_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "structured/grammar_limits.h"
#include "structured/grammar_tree.h"
#include "text/utf8.h"

namespace octavo::structured {
namespace {

uint32_t DecodeUtf8(std::string_view bytes) {
  const auto byte = [bytes](size_t i) {
    return static_cast<uint32_t>(static_cast<unsigned char>(bytes[i]));
  };
  switch (bytes.size()) {
    case 1:
      return byte(0);
    case 2:
      return (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
    case 3:
      return (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    default:
      return (byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 |
             (byte(3) & 0x3F);
  }
}

bool IsDigit(uint32_t c) { return c >= '0' && c <= '9'; }

int HexDigit(uint32_t c) {
  if (IsDigit(c)) return static_cast<int>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<int>(c - 'a') + 10;
  if (c >= 'A' && c <= 'F') return static_cast<int>(c - 'A') + 10;
  return -1;
}

bool IsAsciiLetterOrDigit(uint32_t c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool IsSurrogate(uint32_t c) { return c >= 0xD800 && c <= 0xDFFF; }

}  // namespace

CharacterRanges Normalised(CharacterRanges ranges) {
  std::ranges::sort(ranges);
  CharacterRanges merged;
  for (const auto& range : ranges) {
    if (!merged.empty() && range.first <= merged.back().second + 1) {
      merged.back().second = std::max(merged.back().second, range.second);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

CharacterRanges Complement(const CharacterRanges& ranges) {
  CharacterRanges gaps;
  uint32_t next = 0;
  for (const auto& [first, last] : Normalised(ranges)) {
    if (first > next) gaps.emplace_back(next, first - 1);
    next = last + 1;
  }
  if (next <= kMaxCharacter) gaps.emplace_back(next, kMaxCharacter);
  return gaps;
}

std::vector<uint32_t> DecodeUtf8Text(std::string_view text) {
  std::vector<uint32_t> characters;
  characters.reserve(text.size());
  while (!text.empty()) {
    const size_t num_bytes = text::NextUtf8Unit(text).num_bytes;
    characters.push_back(DecodeUtf8(text.substr(0, num_bytes)));
    text.remove_prefix(num_bytes);
  }
  return characters;
}

void AppendUtf8(uint32_t c, std::string* out) {
  const auto append = [out](uint32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (c < 0x80) return append(c);
  if (c < 0x800) {
    append(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      append(0xE0 | c >> 12);
    } else {
      append(0xF0 | c >> 18);
      append(0x80 | (c >> 12 & 0x3F));
    }
    append(0x80 | (c >> 6 & 0x3F));
  }
  append(0x80 | (c & 0x3F));
}

Result<CharacterReader> CharacterReader::Make(std::string_view what, std::string_view text) {
  if (const std::optional<size_t> offset = text::ValidateUtf8(text)) {
    return Status::InvalidArgument(fmt::format("{} is not UTF-8 at byte {}", what, *offset));
  }
  if (const size_t offset = text.find('\0'); offset != text.npos) {
    return Status::InvalidArgument(
        fmt::format("{} holds a NUL at byte {}, but must not", what, offset));
  }
  return CharacterReader(what, DecodeUtf8Text(text));
}

bool CharacterReader::StartsWith(std::string_view ascii) const {
  for (size_t i = 0; i < ascii.size(); ++i) {
    if (Peek(i) != static_cast<unsigned char>(ascii[i])) return false;
  }
  return true;
}

Status CharacterReader::Error(std::string_view message) const {
  return Status::InvalidArgument(
      fmt::format("{}, character {}: {}", what_, position_ + 1, message));
}

Result<uint32_t> CharacterReader::ReadHex(int min_digits, int max_digits) {
  uint32_t value = 0;
  int count = 0;
  for (; count < max_digits && HexDigit(Peek()) >= 0; ++count, Skip()) {
    value = value * 16 + static_cast<uint32_t>(HexDigit(Peek()));
  }
  if (count < min_digits) {
    return Error(fmt::format("an escape needs {} hexadecimal digits", min_digits));
  }
  if (value == 0 || value > kMaxCharacter || IsSurrogate(value)) {
    return Error(fmt::format("U+{:04X} is not a character that can be matched", value));
  }
  return value;
}

Result<uint32_t> CharacterReader::ReadEscape() {
  Skip();  // the backslash
  const uint32_t c = Peek();
  if (c == kEnd) return Error("an escape is not finished");
  Skip();
  switch (c) {
    case 'n':
      return uint32_t{'\n'};
    case 'r':
      return uint32_t{'\r'};
    case 't':
      return uint32_t{'\t'};
    case 'f':
      return uint32_t{'\f'};
    case 'v':
      return uint32_t{'\v'};
    case 'x':
      return ReadHex(2, 2);
    case 'U':
      return ReadHex(8, 8);
    case 'u': {
      if (!TakeIf('{')) return ReadHex(4, 4);
      Result<uint32_t> value = ReadHex(1, 6);
      if (value.ok() && !TakeIf('}')) return Error("'}' must end the escape");
      return value;
    }
    default:
      break;
  }
  if (!IsAsciiLetterOrDigit(c)) return c;
  return Error(fmt::format("the escape \\{} is not supported", static_cast<char>(c)));
}

bool CharacterReader::ReadShorthand(CharacterRanges* ranges) {
  if (Peek() != '\\') return false;
  switch (Peek(1)) {
    case 'd':
    case 'D':
      *ranges = {{'0', '9'}};
      break;
    case 'w':
    case 'W':
      *ranges = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
      break;
    case 's':
    case 'S':
      *ranges = {{'\t', '\r'}, {' ', ' '}};
      break;
    default:
      return false;
  }
  if (Peek(1) < 'a') *ranges = Complement(*ranges);
  Skip(2);
  return true;
}

Result<CharacterRanges> CharacterReader::ReadClass() {
  Skip();  // '['
  const bool negated = TakeIf('^');
  if (Peek() == ']') {
    return Error("']' at the beginning of a character class is read in two ways: write '\\]'");
  }
  CharacterRanges ranges;
  const auto read_one = [this]() -> Result<uint32_t> {
    if (Peek() == kEnd) return Error("a character class is not closed with ']'");
    if (Peek() == '\\') return ReadEscape();
    const uint32_t c = Peek();
    Skip();
    return c;
  };
  while (!TakeIf(']')) {
    CharacterRanges shorthand;
    if (ReadShorthand(&shorthand)) {
      ranges.insert(ranges.end(), shorthand.begin(), shorthand.end());
      continue;
    }
    const Result<uint32_t> first = read_one();
    if (!first.ok()) return first.status();
    uint32_t last = *first;
    if (Peek() == '-' && Peek(1) != ']' && Peek(1) != kEnd) {
      Skip();
      const Result<uint32_t> end = read_one();
      if (!end.ok()) return end.status();
      last = *end;
    }
    if (*first > last) return Error("a range of a character class ends before it begins");
    ranges.emplace_back(*first, last);
  }
  ranges = Normalised(std::move(ranges));
  if (negated) ranges = Complement(ranges);
  if (ranges.empty()) return Error("a character class matches no character");
  return ranges;
}

Result<int64_t> CharacterReader::ReadCount() {
  if (!IsDigit(Peek())) return Error("a repeat needs a count: {n}, {n,} or {n,m}");
  int64_t count = 0;
  for (; IsDigit(Peek()); Skip()) {
    count = std::min<int64_t>(count * 10 + (Peek() - '0'), kMaxRepeat + 1);
  }
  if (count > kMaxRepeat) {
    return Error(fmt::format("a repeat count is above {}, the most", kMaxRepeat));
  }
  return count;
}

Result<std::pair<int64_t, int64_t>> CharacterReader::ReadCounts() {
  Skip();  // '{'
  const Result<int64_t> min = ReadCount();
  if (!min.ok()) return min.status();
  int64_t max = *min;
  if (TakeIf(',')) {
    max = GrammarNode::kUnbounded;
    if (Peek() != '}') {
      const Result<int64_t> end = ReadCount();
      if (!end.ok()) return end.status();
      max = *end;
      if (max < *min) return Error(fmt::format("a repeat of {{{},{}}} is empty", *min, max));
    }
  }
  if (!TakeIf('}')) return Error("a repeat is not closed with '}'");
  return std::pair{*min, max};
}

}  // namespace octavo::structured
