#pragma once

// Purpose:    which tokens may come next, one bit each, and what that does to a row of logits.
// Ownership:  a TokenBitmask owns its words.
// Threading:  one thread at a time.
// Invariants: bit `id % 32` of word `id / 32` is token `id`'s; bits beyond the vocabulary are
//             ignored.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "octavo/types.h"

namespace octavo::structured {

class TokenBitmask {
 public:
  explicit TokenBitmask(int32_t vocab_size)
      : words_((static_cast<size_t>(vocab_size) + 31) / 32), vocab_size_(vocab_size) {}

  std::span<uint32_t> words() { return words_; }
  int32_t vocab_size() const { return vocab_size_; }
  bool allows(TokenId id) const { return (words_[Word(id)] >> (id % 32) & 1) != 0; }
  void ForbidAll() { std::ranges::fill(words_, 0u); }
  void Forbid(TokenId id) { words_[Word(id)] &= ~(uint32_t{1} << (id % 32)); }

  // What is not allowed becomes -inf in `logits` [vocab_size].
  void ApplyTo(std::span<float> logits) const {
    for (size_t w = 0; w < words_.size(); ++w) {
      const uint32_t word = words_[w];
      if (word == UINT32_MAX) continue;
      const std::span<float> part =
          logits.subspan(w * 32, std::min<size_t>(32, logits.size() - w * 32));
      for (size_t bit = 0; bit < part.size(); ++bit) {
        if ((word >> bit & 1) == 0) part[bit] = -std::numeric_limits<float>::infinity();
      }
    }
  }

 private:
  static size_t Word(TokenId id) { return static_cast<size_t>(id) / 32; }

  std::vector<uint32_t> words_;
  int32_t vocab_size_;
};

}  // namespace octavo::structured
