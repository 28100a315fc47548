#pragma once

// Purpose:    what is said of a command line that cannot be used: the option that is meant, and the
//             nearest one that there is.
// Ownership:  borrows the application.
// Threading:  the main thread.
// Invariants: one line each.

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace octavo::cli {

// "octavo bench cache": the command as far as it was given, and its application.
const CLI::App& DeepestCommand(const CLI::App& app);
std::string ProgramName(const CLI::App& app);

// Of a parse that failed with `error`: the word that no option or command explains, if there is
// one, else what CLI11 says.
std::string DescribeParseError(const CLI::App& app, const CLI::ParseError& error);

// An error of the library names its field first ("max_model_len is 0, but ..."). Where the
// command has an option of that name, the same with the option's spelling.
std::string WithOptionName(const CLI::App& command, std::string_view message);

}  // namespace octavo::cli
