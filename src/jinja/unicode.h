#pragma once

// Purpose:    characters in UTF-8 as Python's str sees them.
// Ownership:  none.
// Threading:  any thread.
// Invariants: texts are valid UTF-8, but no function reads outside a text that is not.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace octavo::jinja {

bool IsValidUtf8(std::string_view text);

// The length of the character that begins at `at`, at least 1. REQUIRES: at < text.size().
size_t CharacterBytes(std::string_view text, size_t at);
int32_t CodePointAt(std::string_view text, size_t at);
// Where the character before `end` begins. REQUIRES: 0 < end <= text.size().
size_t CharacterBefore(std::string_view text, size_t end);
int64_t CountCharacters(std::string_view text);
// The offset of character `index`, or text.size() if there are fewer.
size_t OffsetOf(std::string_view text, int64_t index);

void AppendUtf8(int32_t code_point, std::string* out);

bool IsSpace(int32_t code_point);      // str.isspace
bool IsLineBreak(int32_t code_point);  // where str.splitlines cuts
bool IsPrintable(int32_t code_point);  // what repr shows as it is
bool IsAlpha(int32_t code_point);      // str.isalpha
bool IsDecimal(int32_t code_point);    // str.isdecimal
bool IsUpper(int32_t code_point);
bool IsLower(int32_t code_point);

std::string Upper(int32_t code_point);
std::string Lower(int32_t code_point);
std::string Title(int32_t code_point);

}  // namespace octavo::jinja
