#pragma once

// Purpose:    the time of work that all threads do together, at its best.
// Ownership:  borrows the pool.
// Threading:  as ThreadPool::Run.
// Invariants: the shortest of several passes, each long enough to be measured.

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/thread_pool.h"

namespace octavo::bench {

// Calls `work(thread)` on all threads, in passes of at least `seconds` / 5; the seconds of one call
// in the shortest of five passes.
template <class Work>
double BestSeconds(base::ThreadPool& pool, double seconds, const Work& work) {
  constexpr int kPasses = 5;
  double best = 0;
  int64_t repeat = 1;
  for (int pass = 0; pass < kPasses;) {
    const auto start = std::chrono::steady_clock::now();
    pool.Run([&](int thread) {
      for (int64_t i = 0; i < repeat; ++i) work(thread);
    });
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (elapsed.count() < seconds / kPasses) {  // too short to be measured
      repeat *= 2;
      continue;
    }
    const double each = elapsed.count() / static_cast<double>(repeat);
    best = pass == 0 ? each : std::min(best, each);
    ++pass;
  }
  return best;
}

}  // namespace octavo::bench
