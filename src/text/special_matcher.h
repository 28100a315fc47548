#pragma once

// Purpose:    finds the next special token in a text: the leftmost one, and of those that begin
//             there the longest.
// Ownership:  copies the spellings.
// Threading:  immutable after Build; any thread.
// Invariants: a search costs at most kMaxSpecialBytes steps per byte of text, and one step where no
//             special token begins.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "octavo/types.h"
#include "text/string_table.h"

namespace octavo::text {

struct SpecialMatch {
  size_t begin = 0;  // byte offset in the text
  size_t num_bytes = 0;
  TokenId id = kNoToken;
};

class SpecialMatcher {
 public:
  struct Entry {
    std::string_view spelling;  // not empty
    TokenId id = kNoToken;
  };

  void Build(std::vector<Entry> entries);
  // The first match that begins at `from` or later.
  std::optional<SpecialMatch> Find(std::string_view text, size_t from) const;
  int64_t memory_bytes() const;

 private:
  std::optional<SpecialMatch> MatchAt(std::string_view text, size_t begin) const;

  StringTable spellings_;     // sorted bytewise
  std::vector<TokenId> ids_;  // [num_specials], in the same order
  std::array<uint32_t, 257>
      first_byte_{};  // entries that begin with byte b: [first_byte_[b], first_byte_[b + 1])
};

}  // namespace octavo::text
