#pragma once

// Purpose:    JSON as text: parts of a text as they are spelled, and values with numbers as people
//             spell them. What passes through a model or to a client keeps its digits.
// Ownership:  slices point into the text that was given.
// Threading:  any thread.
// Invariants: what is written reads as the same value.

#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace octavo::server {

// The elements of an array. REQUIRES: `array` is the JSON text of one.
std::vector<std::string_view> JsonElements(std::string_view array);

// The member with this name, the last one if there are several; nothing if there is none.
// REQUIRES: `object` is the JSON text of an object.
std::optional<std::string_view> JsonMember(std::string_view object, std::string_view name);

// The text without white space between its parts. REQUIRES: JSON text.
std::string CompactJson(std::string_view json);

// Without white space; doubles in the fewest digits (0.1, where Boost.JSON writes 1E-1).
std::string SpellJson(const boost::json::value& value);

}  // namespace octavo::server
