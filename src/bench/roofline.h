#pragma once

// Purpose:    the machine's bounds, as `octavo bench roofline` prints: how fast its threads read
//             working sets of several sizes, and how much they multiply. Every claim about speed is
//             stated against them.
// Ownership:  makes its own threads and memory.
// Threading:  one thread.
// Invariants: each figure is the best of several passes: a bound is what the machine can do, not
//             what it did beside something else.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "octavo/status.h"

namespace octavo::bench {

struct ReadRate {
  int64_t bytes_per_thread = 0;
  int threads = 0;
  double bytes_per_s = 0;  // of all threads
};

struct PeakRate {
  std::string name;  // element type and instructions
  int threads = 0;
  double operations_per_s = 0;  // a multiply-accumulate is two
};

struct Roofline {
  std::vector<ReadRate> reads;
  std::vector<PeakRate> peaks;
};

struct RooflineOptions {
  std::vector<int> threads;           // counts to measure, each >= 1
  std::vector<int64_t> working_sets;  // bytes of each thread, multiples of 256
  double seconds_per_figure = 0.2;
};

// From what a first-level cache holds to what no cache does.
std::vector<int64_t> UsualWorkingSets();

Result<Roofline> MeasureRoofline(const RooflineOptions& options);

}  // namespace octavo::bench
