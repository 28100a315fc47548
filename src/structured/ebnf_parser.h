#pragma once

// Purpose:    reads a grammar in EBNF, the notation of xgrammar and llama.cpp (name ::= body), into
//             a GrammarTree.
// Ownership:  none.
// Threading:  pure.
// Invariants: whatever it accepts it means; the library's extensions (macros, attributes of rules,
//             look-ahead) are errors. Groups nest at most kMaxDepth deep.

#include <string_view>

#include "octavo/status.h"
#include "structured/grammar_tree.h"

namespace octavo::structured {

// The tree's rule 0 is "root", and the tree is checked.
Result<GrammarTree> ParseEbnf(std::string_view text);

}  // namespace octavo::structured
