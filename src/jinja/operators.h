#pragma once

// Purpose:    Python's operators on values.
// Ownership:  none.
// Threading:  one thread.
// Invariants: integers are 64 bits; an overflow is an error. Strings keep their provenance.

#include "jinja/ast.h"
#include "jinja/value.h"

namespace octavo::jinja {

Value ApplyBinary(Execution& execution, Op op, const Value& a, const Value& b);
bool ApplyCompare(Execution& execution, Op op, const Value& a, const Value& b);
Value Negate(Execution& execution, const Value& value);
// `needle in haystack`
bool Contains(Execution& execution, const Value& haystack, const Value& needle);

// value[start:stop:step]; each part undefined or None if it is not given.
Value ApplySlice(Execution& execution, const Value& value, const Value& start, const Value& stop,
                 const Value& step);

// format % value, Python's printf-like formatting.
Value FormatPercent(Execution& execution, const TrackedString& format, const Value& value);

}  // namespace octavo::jinja
