#pragma once

// Purpose:    a profile as trace events that chrome://tracing and Perfetto show.
// Ownership:  borrows the Profiler during the call.
// Threading:  as the queries of Profiler.
// Invariants: one JSON object in the Trace Event Format: times in microseconds since the first kept
//             event, one track for the steps and one for each thread, each with its name.

#include <string>

#include "octavo/profiler.h"

namespace octavo::bench {

std::string ProfileTraceJson(const Profiler& profiler);

}  // namespace octavo::bench
