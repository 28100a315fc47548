#pragma once

// Purpose:    this program once more, in a fresh process, for what can only be measured there.
// Ownership:  the process is waited for.
// Threading:  any thread.
// Invariants: none.

#include <string>
#include <vector>

#include "octavo/status.h"

namespace octavo::base {

// Runs this program with the arguments that it was started with and `more` behind them, and returns
// what it wrote to its standard output; its standard error is this one's. Errors: the system gives
// no process, or it did not end with exit code 0.
Result<std::string> RunSelfAgain(const std::vector<std::string>& more);

// The same for any program. REQUIRES: arguments is not empty; its first element is the program's
// name for itself.
Result<std::string> RunProgram(const std::string& path, const std::vector<std::string>& arguments);

}  // namespace octavo::base
