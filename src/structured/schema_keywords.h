#pragma once

// Purpose:    what a JSON schema's keywords are about.
// Ownership:  constants.
// Threading:  pure.
// Invariants: a keyword that is in none of these lists is not supported.

#include <boost/json.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "octavo/status.h"

namespace octavo::structured {

// What decides which values match; the first of these keywords that a schema holds.
enum class SchemaForm : uint8_t { kRef, kConst, kEnum, kAnyOf, kOneOf, kAllOf, kTyped };

SchemaForm FormOf(const boost::json::object& schema);
std::string_view FormName(SchemaForm form);

// Whether a schema of this form may hold the keyword.
bool IsKeywordOf(SchemaForm form, std::string_view keyword);
// Keywords that change nothing about which values match.
bool IsAnnotation(std::string_view keyword);

// The types that `type` names, or the one that the other keywords are about; empty if every value
// matches.
Result<std::vector<std::string>> TypesOf(const boost::json::object& schema);

// Whether `value` is of a type that the schema's `type` names, if it has one.
bool MatchesType(const boost::json::value& value, const boost::json::object& schema);

// Whether the library writes the numbers in `value` as they are.
bool IsExact(const boost::json::value& value);

}  // namespace octavo::structured
