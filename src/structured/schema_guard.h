#pragma once

// Purpose:    checks a JSON schema: size, depth, references, counts, and that every keyword in it
//             is one that the grammar library honours (docs/contracts/structured-outputs.md, G4).
// Ownership:  none.
// Threading:  pure.
// Invariants: as grammar_guard.h says.

#include <string>
#include <string_view>

#include "octavo/status.h"

namespace octavo::structured {

// The schema as the library is to read it.
Result<std::string> GuardSchema(std::string_view text);

}  // namespace octavo::structured
