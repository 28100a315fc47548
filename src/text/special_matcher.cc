#include "text/special_matcher.h"

#include <algorithm>

namespace octavo::text {

void SpecialMatcher::Build(std::vector<Entry> entries) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.spelling != b.spelling ? a.spelling < b.spelling : a.id < b.id;
  });
  const auto same = [](const Entry& a, const Entry& b) { return a.spelling == b.spelling; };
  entries.erase(std::unique(entries.begin(), entries.end(), same), entries.end());

  spellings_ = StringTable();
  ids_.clear();
  first_byte_.fill(0);
  for (const Entry& entry : entries) {
    spellings_.Append(entry.spelling);
    ids_.push_back(entry.id);
    ++first_byte_[static_cast<uint8_t>(entry.spelling[0]) + 1];
  }
  for (size_t b = 1; b < first_byte_.size(); ++b) first_byte_[b] += first_byte_[b - 1];
  spellings_.ShrinkToFit();
}

std::optional<SpecialMatch> SpecialMatcher::Find(std::string_view text, size_t from) const {
  if (ids_.empty()) return std::nullopt;
  for (size_t begin = from; begin < text.size(); ++begin) {
    const uint8_t byte = static_cast<uint8_t>(text[begin]);
    if (first_byte_[byte] == first_byte_[byte + 1]) continue;
    if (std::optional<SpecialMatch> match = MatchAt(text, begin)) return match;
  }
  return std::nullopt;
}

// Narrows the sorted entries to those that agree with the text, one byte at a time; an entry that
// ends on the way is a match, and the last such one is the longest. It stands first in its range,
// because a prefix sorts before what it begins.
std::optional<SpecialMatch> SpecialMatcher::MatchAt(std::string_view text, size_t begin) const {
  std::optional<SpecialMatch> longest;
  const uint8_t first = static_cast<uint8_t>(text[begin]);
  size_t low = first_byte_[first];
  size_t high = first_byte_[first + 1];
  for (size_t depth = 1; low < high; ++depth) {
    if (spellings_[low].size() == depth) {
      longest = SpecialMatch{begin, depth, ids_[low]};
      ++low;
    }
    if (begin + depth == text.size()) break;
    // From here on every entry in [low, high) is longer than `depth`.
    const uint8_t byte = static_cast<uint8_t>(text[begin + depth]);
    const auto byte_at = [&](size_t i) { return static_cast<uint8_t>(spellings_[i][depth]); };
    const auto bound = [&](auto below) {
      size_t left = low, right = high;
      while (left < right) {
        const size_t middle = left + (right - left) / 2;
        if (below(byte_at(middle))) {
          left = middle + 1;
        } else {
          right = middle;
        }
      }
      return left;
    };
    const size_t new_low = bound([byte](uint8_t b) { return b < byte; });
    high = bound([byte](uint8_t b) { return b <= byte; });
    low = new_low;
  }
  return longest;
}

int64_t SpecialMatcher::memory_bytes() const {
  return spellings_.memory_bytes() + static_cast<int64_t>(ids_.capacity() * sizeof(TokenId));
}

}  // namespace octavo::text
