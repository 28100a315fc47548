#pragma once

// Purpose:    standard input and output as octavo's commands use them: unbuffered, with errors as
//             Status, safe when a stream is closed or its reader has gone.
// Ownership:  none; the three standard descriptors belong to the process.
// Threading:  the main thread.
// Invariants: after PrepareStandardStreams descriptors 0 to 2 are open, so that no model file can
//             take their place, and a reader that goes away is an error of write, not a signal.

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

#include "octavo/status.h"

namespace octavo::cli {

void PrepareStandardStreams();

bool StdinIsTerminal();
bool StdoutIsTerminal();
bool StderrIsTerminal();

// Writes all of `text`. kUnavailable for an error, with an empty message if the reader has gone.
Status WriteStdout(std::string_view text);

// Writes all of `text`, or as much as stderr takes.
void WriteStderr(std::string_view text);

// `text` with a space for each control character: what comes from a file or a command line must
// neither break a line nor steer the terminal.
std::string Printable(std::string_view text);

// The bytes of a file; "-" is standard input. A line of more than max_line_bytes is an error as
// soon as it is seen, so that reading /dev/zero ends.
Result<std::string> ReadFileOrStdin(const std::string& path,
                                    size_t max_line_bytes = std::numeric_limits<size_t>::max());

// What WriteFile(path) would say of a file that cannot be written, as far as can be told without
// touching it.
Status CheckWritable(const std::string& path);

// True if both are there and are one file, by whatever names.
bool IsSameFile(const std::string& a, const std::string& b);

// Makes the file, or replaces what it held.
Status WriteFile(const std::string& path, std::string_view text);

}  // namespace octavo::cli
