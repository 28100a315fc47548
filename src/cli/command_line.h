#pragma once

// Purpose:    the program `octavo`: parses the command line, runs one subcommand, and turns its
//             outcome into an exit code: 0 for success, 1 for failure, 2 for a usage error.
// Ownership:  none.
// Threading:  called once, from main.
// Invariants: every error is one line on stderr; no code above baseline x86-64 runs before the
//             engine has checked the processor.

namespace octavo::cli {

int RunCommandLine(int argc, char** argv);

}  // namespace octavo::cli
