#pragma once

// Purpose:    cuts a text into the matches of a pattern and the stretches between them, with PCRE2.
// Ownership:  owns the compiled pattern.
// Threading:  immutable after Compile; any number of threads may Split at once.
// Invariants: the pieces are not empty, in order, and together they are the text.

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "octavo/status.h"

namespace octavo::text {

class RegexSplitter {
 public:
  struct Code;  // PCRE2's objects

  // `pattern` is in PCRE2's syntax, over UTF-8 with Unicode properties. kInternal if it does not
  // compile.
  static Result<RegexSplitter> Compile(std::string_view pattern);
  RegexSplitter(RegexSplitter&&) noexcept;
  RegexSplitter& operator=(RegexSplitter&&) noexcept;
  ~RegexSplitter();

  // Appends the pieces of every text, in order. REQUIRES: each is valid UTF-8. kResourceExhausted
  // if matching hits a limit of PCRE2.
  Status Split(std::span<const std::string_view> texts,
               std::vector<std::string_view>* pieces) const;

  size_t memory_bytes() const;

 private:
  explicit RegexSplitter(std::unique_ptr<Code> code);

  std::unique_ptr<Code> code_;
};

}  // namespace octavo::text
