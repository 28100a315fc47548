#pragma once

// Purpose:    values as text, as Python writes them: str(), repr() and json.dumps().
// Ownership:  none.
// Threading:  one thread.
// Invariants: strings keep their provenance through all three; what is added (quotes, brackets,
//             escapes, digits) is untrusted.

#include <optional>
#include <string>

#include "jinja/value.h"

namespace octavo::jinja {

std::string FloatRepr(double value);

// str(value).
TrackedString Str(Execution& execution, const Value& value);
void AppendStr(Execution& execution, const Value& value, StringBuilder* out);
void AppendRepr(Execution& execution, const Value& value, StringBuilder* out);

struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<TrackedString> indent;  // one level's; absent = one line
  TrackedString item_separator;
  TrackedString key_separator;
  bool sort_keys = false;
};
void AppendJson(Execution& execution, const Value& value, const JsonStyle& style,
                StringBuilder* out);

// html.escape as markupsafe does it.
void AppendEscaped(const TrackedString& text, StringBuilder* out);

}  // namespace octavo::jinja
