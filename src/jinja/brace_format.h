#pragma once

// Purpose:    Python's str.format.
// Ownership:  none.
// Threading:  one thread.
// Invariants: literal parts keep the format's provenance, fields that of their values. Fields in
//             a field's specification are not supported, and refused.

#include "jinja/value.h"

namespace octavo::jinja {

Value FormatBraces(Interpreter& interpreter, const TrackedString& format,
                   const Arguments& arguments);

}  // namespace octavo::jinja
