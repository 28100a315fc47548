#pragma once

// Purpose:    the alphabet in which byte-level BPE vocabularies spell bytes: printable Latin-1
//             characters stand for themselves, the other 68 bytes for U+0100 to U+0143, in order.
// Ownership:  pure functions over constant tables.
// Threading:  any thread.
// Invariants: a bijection between the 256 bytes and 256 characters.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace octavo::text {

// The character for `byte`, as UTF-8. Lives for ever.
std::string_view ByteSpelling(uint8_t byte);

// The bytes that `spelling` stands for; nothing if it holds anything outside the alphabet.
std::optional<std::string> BytesOfSpelling(std::string_view spelling);

}  // namespace octavo::text
