#pragma once

// Purpose:    what the grammar library would print: its warnings are things in the caller's grammar
//             that it ignores.
// Ownership:  none.
// Threading:  each thread collects its own.
// Invariants: the library never prints; a fatal message becomes an exception, which the caller of
//             the library catches.

#include <string>

namespace octavo::structured {

// Forgets what this thread collected.
void ClearLibraryWarnings();
// The first warning of this thread since then; "" for none.
const std::string& FirstLibraryWarning();

}  // namespace octavo::structured
