#pragma once

// Purpose:    what the readers of EBNF and of regular expressions share: the characters of a text
//             one by one, escapes, character classes, repeat counts.
// Ownership:  owns the decoded text.
// Threading:  one thread at a time.
// Invariants: Peek is kEnd from the end of the text on; every error names the place and what was
//             found there.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "octavo/status.h"

namespace octavo::structured {

using CharacterRanges = std::vector<std::pair<uint32_t, uint32_t>>;

inline constexpr uint32_t kMaxCharacter = 0x10FFFF;

// Sorted, without overlap, neighbours merged.
CharacterRanges Normalised(CharacterRanges ranges);
// What is not in `ranges`.
CharacterRanges Complement(const CharacterRanges& ranges);
// The characters of well-formed UTF-8.
std::vector<uint32_t> DecodeUtf8Text(std::string_view text);
void AppendUtf8(uint32_t character, std::string* out);

class CharacterReader {
 public:
  static constexpr uint32_t kEnd = UINT32_MAX;

  // `what` names the text in errors. An error if it is not UTF-8 or holds a NUL.
  static Result<CharacterReader> Make(std::string_view what, std::string_view text);

  uint32_t Peek(size_t ahead = 0) const {
    return position_ + ahead < text_.size() ? text_[position_ + ahead] : kEnd;
  }
  void Skip(size_t count = 1) { position_ += count; }
  bool TakeIf(uint32_t character) {
    if (Peek() != character) return false;
    ++position_;
    return true;
  }
  bool StartsWith(std::string_view ascii) const;
  bool at_end() const { return position_ >= text_.size(); }
  size_t position() const { return position_; }

  // "WHAT, character N: MESSAGE".
  Status Error(std::string_view message) const;

  // The ranges of the class that begins here with '[', complemented if it begins with "[^". Knows
  // \d \w \s and their complements.
  Result<CharacterRanges> ReadClass();
  // The one character of the escape that begins here with a backslash; of \d and its like (see
  // ReadShorthand) an error.
  Result<uint32_t> ReadEscape();
  // The ranges of \d, \w, \s, \D, \W or \S, if one begins here.
  bool ReadShorthand(CharacterRanges* ranges);
  // The counts of {n}, {n,} or {n,m}, which begins here with '{'; no upper end is
  // GrammarNode::kUnbounded.
  Result<std::pair<int64_t, int64_t>> ReadCounts();

 private:
  CharacterReader(std::string_view what, std::vector<uint32_t> text)
      : what_(what), text_(std::move(text)) {}

  Result<uint32_t> ReadHex(int min_digits, int max_digits);
  Result<int64_t> ReadCount();

  std::string what_;
  std::vector<uint32_t> text_;
  size_t position_ = 0;
};

}  // namespace octavo::structured
