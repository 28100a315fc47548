#pragma once

// Purpose:    the matrix products on random weights, and attention over random K and V, as shares
//             of what the machine could do at best: what `octavo bench kernels` prints.
// Ownership:  makes its own threads, matrices and caches.
// Threading:  one thread.
// Invariants: the weights of a figure (or K and V) take weight_bytes, more than usual caches hold,
//             as in a model; a share is the time that the bytes and the operations need at the
//             bounds (reading as much memory; the int8, int16 or fp32 probe of the instruction
//             set, fp32 where there is none), whichever is more, through the time taken.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "octavo/status.h"

namespace octavo::bench {

struct KernelRate {
  std::string product;      // "int8", "int16", "float32" or "attention"
  std::string format;       // of the weights, or of K and V
  int64_t num_outputs = 0;  // attention: query heads times their size
  int64_t num_inputs = 0;   // attention: positions of the context
  int64_t num_rows = 0;
  double bytes_per_s = 0;  // of weights, or of K and V
  double operations_per_s = 0;
  double share = 0;           // of the bound; 1 = as fast as the probe
  bool memory_bound = false;  // which of the two bounds it is
};

struct KernelRateOptions {
  std::string isa;  // "avx512", "avx2", "neon"; empty: the best of this processor
  int threads = 1;
  double seconds_per_figure = 0.2;
  size_t weight_bytes = size_t{128}
                        << 20;  // that one figure goes through: more than the caches hold
};

// Measures the bounds at these threads, then every product and attention, with `on_row` after each.
// The kernels' name is in *isa from the first row on. kInvalidArgument if this processor cannot run
// `isa`.
Status MeasureKernelRates(const KernelRateOptions& options, std::string* isa,
                          const std::function<void(const KernelRate&)>& on_row);

}  // namespace octavo::bench
