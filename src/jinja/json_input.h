#pragma once

// Purpose:    JSON texts of the caller (messages, tools, arguments) as values of a template.
// Ownership:  the values own their bytes.
// Threading:  any thread.
// Invariants: strict RFC 8259: no comments, no trailing commas, no NaN, no lone surrogates; every
//             string is untrusted; of equal keys the last counts. Numbers are exact: integers up to
//             64 bits, the rest as double; outside of that it is an error.

#include <string_view>

#include "jinja/value.h"
#include "octavo/status.h"

namespace octavo::jinja {

inline constexpr int32_t kMaxJsonDepth = 100;

// `what` names the text in messages. kInvalidArgument with the byte's offset.
Result<Value> ParseJson(Execution& execution, std::string_view json, std::string_view what);

}  // namespace octavo::jinja
