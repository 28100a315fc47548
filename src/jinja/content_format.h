#pragma once

// Purpose:    tells from a template whether it wants the parts of a message's content, or one text.
// Ownership:  none.
// Threading:  any thread.
// Invariants: the rule is vLLM's "auto": the template loops over the content of a message, and
//             messages are what a loop over `messages`, or a variable set from it, gives.

#include "jinja/ast.h"

namespace octavo::jinja {

bool IteratesContent(const Program& program);

}  // namespace octavo::jinja
