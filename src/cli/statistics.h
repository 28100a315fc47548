#pragma once

// Purpose:    what a person wants to know about a finished request, in one line.
// Ownership:  none.
// Threading:  any.
// Invariants: figures are those of RequestOutput; nothing is measured here.

#include <string>

#include "octavo/request_output.h"
#include "octavo/status.h"

namespace octavo::cli {

// "prompt 12 tokens (0 cached), 480 tokens/s; first token 0.03 s; output 64 tokens, 95 tokens/s;
// end: length"; the output is that of all completions together.
std::string FormatStatistics(const RequestOutput& output);

// kInternal if the model broke down in the request (finish_reason error), else OK.
Status ErrorOf(const RequestOutput& output);

}  // namespace octavo::cli
