#pragma once

// Purpose:    many short strings in one allocation, and an index from a string to its position.
// Ownership:  a StringTable owns its bytes; a StringIndex borrows the table that it was built over.
// Threading:  immutable after they are built; any thread.
// Invariants: offsets_ rises; a StringIndex holds each spelling once, with the lowest position.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "octavo/types.h"

namespace octavo::text {

class StringTable {
 public:
  void Append(std::string_view text);
  void ShrinkToFit();
  size_t size() const { return offsets_.size() - 1; }
  std::string_view operator[](size_t i) const {
    return std::string_view(chars_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
  }
  int64_t memory_bytes() const;

 private:
  std::string chars_;
  std::vector<size_t> offsets_ = {0};  // [size + 1]
};

// Open addressing with linear probing, at most half full. Positions are token ids.
class StringIndex {
 public:
  // Forgets everything and makes room.
  void Reserve(size_t num_entries);
  // Keeps the entry that is there if the spelling is known already, so insert in rising order of
  // ids. False if too many entries collide: only a vocabulary made for that does it. REQUIRES: no
  // more calls than were reserved.
  bool Insert(const StringTable& table, TokenId id);
  std::optional<TokenId> Find(const StringTable& table, std::string_view text) const;
  int64_t memory_bytes() const { return static_cast<int64_t>(slots_.capacity() * sizeof(TokenId)); }

 private:
  std::vector<TokenId> slots_;  // kNoToken = free; a power of two of them
};

}  // namespace octavo::text
