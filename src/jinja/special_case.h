#pragma once

// Purpose:    the characters whose upper case is more than one character (Unicode's SpecialCasing,
//             as Python's str.upper and str.title follow it).
// Ownership:  a constant table.
// Threading:  any thread.
// Invariants: texts are UTF-8.

#include <cstdint>

namespace octavo::jinja {

struct SpecialCase {
  int32_t code_point;
  const char* upper;
  const char* title;
};

// Null for a character that the simple mappings serve.
const SpecialCase* FindSpecialCase(int32_t code_point);

}  // namespace octavo::jinja
