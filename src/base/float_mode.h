#pragma once

// Purpose:    the floating-point environment that the arithmetic contract demands of a thread that
//             computes.
// Ownership:  a scope; the destructor restores what the caller had.
// Threading:  changes the calling thread only; construct and destroy on the same thread.
// Invariants: inside the scope: round to nearest even, subnormals neither flushed (FTZ off) nor
//             read as zero (DAZ off), all exceptions masked.

#include <cstdint>

namespace octavo::base {

class ScopedFloatMode {
 public:
  ScopedFloatMode();
  ~ScopedFloatMode();
  ScopedFloatMode(const ScopedFloatMode&) = delete;
  ScopedFloatMode& operator=(const ScopedFloatMode&) = delete;

 private:
  uint64_t saved_;  // MXCSR on x86, FPCR on Arm
};

}  // namespace octavo::base
