#pragma once

// Purpose:    what the value of JSON schema's `format` asks of a string.
// Ownership:  constants.
// Threading:  pure.
// Invariants: every string that matches has the format; the rarer spellings of a format may be left
//             out.

#include <optional>
#include <string>
#include <string_view>

namespace octavo::structured {

// A regular expression; nothing for a format that is not known.
std::optional<std::string> FormatPattern(std::string_view format);

// The known ones, for messages.
std::string FormatNames();

}  // namespace octavo::structured
