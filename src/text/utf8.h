#pragma once

// Purpose:    the one place that knows what valid UTF-8 is (Unicode 15, table 3-7: no surrogates,
//             no overlong forms, nothing above U+10FFFF).
// Ownership:  pure functions and one small value.
// Threading:  any thread.
// Invariants: what ReplaceInvalidUtf8 and Utf8Stream give out is valid UTF-8, and equal to Python's
//             bytes.decode("utf-8", errors="replace"): one U+FFFD per maximal subpart.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace octavo::text {

enum class Utf8Kind {
  kValid,       // one whole character
  kInvalid,     // a maximal subpart that can never become a character
  kIncomplete,  // the rest of the input: it begins a character, and more bytes may complete it
};

struct Utf8Unit {
  Utf8Kind kind = Utf8Kind::kValid;
  size_t num_bytes = 0;  // kValid: 1 .. 4; otherwise 1 .. 3
};

// What stands at the beginning of `bytes`. REQUIRES: bytes is not empty.
Utf8Unit NextUtf8Unit(std::string_view bytes);

// The length of the longest prefix that is valid UTF-8, in bytes.
size_t ValidUtf8Prefix(std::string_view bytes);

// The offset of the first byte that is not part of valid UTF-8; nothing if all of it is valid.
std::optional<size_t> ValidateUtf8(std::string_view bytes);

// All of `bytes` as text; a truncated character at the end is replaced as well.
std::string ReplaceInvalidUtf8(std::string_view bytes);

// The same in pieces: the concatenation of everything appended equals ReplaceInvalidUtf8 of all
// bytes.
class Utf8Stream {
 public:
  // Appends to `text` what `bytes` completes; holds back at most 3 bytes that may begin a
  // character.
  void Push(std::string_view bytes, std::string* text);
  // Ends the stream: what was held back becomes one U+FFFD.
  void Flush(std::string* text);

 private:
  std::string held_;  // at most 3 bytes
};

}  // namespace octavo::text
