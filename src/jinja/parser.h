#pragma once

// Purpose:    tokens to a Program, with Jinja2's grammar (and its loopcontrols extension and the
//             generation tag).
// Ownership:  the Program owns all of its nodes.
// Threading:  any thread.
// Invariants: nesting is bounded while parsing; what this engine does not serve is refused here,
//             with its line.

#include <string_view>

#include "jinja/ast.h"
#include "octavo/status.h"

namespace octavo::jinja {

Result<Program> ParseProgram(std::string_view source);

}  // namespace octavo::jinja
