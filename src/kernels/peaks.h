#pragma once

// Purpose:    what one processor of this machine reaches at best: reading memory, and multiplying
//             in registers. The bounds that kernels are measured against.
// Ownership:  none.
// Threading:  pure: any number of threads may call them at once.
// Invariants: each computes what its name says; none of it is optimised away.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace octavo::kernels {

// Reads all of `size` bytes, a multiple of 256, with the widest loads there are; a checksum. Null
// on a processor that no kernel runs on.
using ReadAll = uint64_t (*)(const std::byte* data, size_t size);
ReadAll FastestRead();

struct PeakProbe {
  std::string_view name;       // "fp32 avx512"
  double operations_per_step;  // a multiply-accumulate counts as two
  void (*run)(int64_t num_steps);
};

// Those that this processor can run, widest vectors first. Empty only where no kernel runs.
std::span<const PeakProbe> PeakProbes();

}  // namespace octavo::kernels
