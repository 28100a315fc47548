#pragma once

// Purpose:    reads a regular expression that a whole text must match into a GrammarTree.
// Ownership:  none.
// Threading:  pure.
// Invariants: whatever it accepts it means: back references, look-around, word boundaries, flags
//             and unknown escapes are errors. Groups nest at most kMaxDepth deep.

#include <string_view>

#include "octavo/status.h"
#include "structured/grammar_tree.h"

namespace octavo::structured {

// `what` names the text in errors. The tree's rule 0 is the expression; it is checked.
Result<GrammarTree> ParseRegex(std::string_view what, std::string_view text);

}  // namespace octavo::structured
