#pragma once

// Purpose:    Python's backslash escapes in the strings of a template.
// Ownership:  none.
// Threading:  any thread.
// Invariants: an unknown escape stays as it is, as in Python.

#include <string>
#include <string_view>

namespace octavo::jinja {

// Appends what `source` (between its quotes) means to `text`. Returns what is wrong, or nothing.
std::string Unescape(std::string_view source, std::string* text);

}  // namespace octavo::jinja
