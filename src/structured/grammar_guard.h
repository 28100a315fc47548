#pragma once

// Purpose:    decides, before the grammar library sees anything, whether it may see it
//             (docs/contracts/structured-outputs.md, G2 and G3).
// Ownership:  plain values.
// Threading:  pure.
// Invariants: time and memory are bounded by the size of the text; what passes is within
//             grammar_limits.h, ends, is not left-recursive and holds nothing that would be
//             ignored.

#include <string>

#include "octavo/status.h"
#include "octavo/structured_outputs.h"

namespace octavo::structured {

// What the library compiles; equal sources give equal grammars.
struct GrammarSource {
  enum class Kind { kEbnf, kJsonSchema };

  Kind kind = Kind::kEbnf;
  std::string text;
};

// kInvalidArgument: a limit, with its value; a thing that is not supported; not exactly one kind.
Result<GrammarSource> GuardGrammar(const StructuredOutputs& outputs);

}  // namespace octavo::structured
