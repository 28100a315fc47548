#pragma once

// Purpose:    a small profile with known figures, for the tests of this folder: two threads, a
//             prefill step and three decode steps of 100, 300 and 200 us.
// Ownership:  the caller's.
// Threading:  one thread.
// Invariants: thread 1 rests while thread 0 plans, and at the end of each step.

#include "octavo/profiler.h"

namespace octavo::bench {

inline void RecordTestStep(Profiler& profiler, ProfileStepKind kind, int64_t begin_ns,
                           int64_t length_ns) {
  const int64_t tenth = length_ns / 10;
  profiler.BeginStep(begin_ns);
  profiler.Mark(0, ProfileZone::kPlan, begin_ns + tenth);
  profiler.Resume(1, begin_ns + tenth);
  for (int thread = 0; thread < 2; ++thread) {
    for (int32_t layer = 0; layer < 2; ++layer) {
      const int64_t start = begin_ns + tenth + layer * 4 * tenth;
      profiler.SetLayer(thread, layer);
      profiler.Mark(thread, ProfileZone::kAttention, start + (1 + thread) * tenth);
      profiler.Mark(thread, ProfileZone::kBarrierWait, start + 2 * tenth);
      profiler.Mark(thread, ProfileZone::kDown, start + 4 * tenth);
    }
    profiler.SetLayer(thread, -1);
  }
  profiler.Mark(0, ProfileZone::kSample, begin_ns + 10 * tenth);
  profiler.EndStep(kind, kind == ProfileStepKind::kPrefill ? 64 : 1, begin_ns + 10 * tenth);
}

inline void RecordTestProfile(Profiler& profiler) {
  profiler.Attach(2);
  RecordTestStep(profiler, ProfileStepKind::kPrefill, 5'000'000, 1'000'000);
  RecordTestStep(profiler, ProfileStepKind::kDecode, 7'000'000, 100'000);
  RecordTestStep(profiler, ProfileStepKind::kDecode, 8'000'000, 300'000);
  RecordTestStep(profiler, ProfileStepKind::kDecode, 9'000'000, 200'000);
}

}  // namespace octavo::bench
