#pragma once

// Purpose:    a profile as a table for people, and the choice of a step that stands for the others.
// Ownership:  borrows the Profiler during a call.
// Threading:  as the queries of Profiler.
// Invariants: a share is of threads x steps' time, so that a table's shares add up to 100 %.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "octavo/profiler.h"

namespace octavo::bench {

// "prefill" or "decode".
std::string_view ProfileStepKindName(ProfileStepKind kind);

// One zone over all steps of a kind.
struct ProfileLine {
  std::string_view name;
  std::optional<ProfileZone> zone;  // absent: no zone, a thread has nothing to do
  int64_t calls = 0;
  double total_ms = 0;                     // of all threads
  double share = 0;                        // 0..1
  std::vector<double> thread_us_per_step;  // [num_threads]
};

// The zones that were entered, in the order of a step, then what no zone covers.
std::vector<ProfileLine> ProfileLines(const Profiler& profiler, ProfileStepKind kind);

// A table for each kind of step that there was.
std::string ProfileTable(const Profiler& profiler);

// The step of median length among those of a kind of which every event is kept.
std::optional<ProfileStep> TypicalStep(const Profiler& profiler, ProfileStepKind kind);

}  // namespace octavo::bench
