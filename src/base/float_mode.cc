#include "base/float_mode.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace octavo::base {
namespace {

#if defined(__x86_64__)

// All exceptions masked (bits 7 to 12); rounding control, FTZ and DAZ zero; no sticky flags.
constexpr uint64_t kContractMode = 0x1f80;

uint64_t ReadMode() { return _mm_getcsr(); }
void WriteMode(uint64_t mode) { _mm_setcsr(static_cast<unsigned>(mode)); }

#elif defined(__aarch64__)

// Round to nearest, FZ, FZ16 and DN off, no trapped exception: all bits zero.
constexpr uint64_t kContractMode = 0;

uint64_t ReadMode() {
  uint64_t mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
void WriteMode(uint64_t mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }

#else
#error "octavo runs on x86-64 and 64-bit Arm"
#endif

}  // namespace

ScopedFloatMode::ScopedFloatMode() : saved_(ReadMode()) { WriteMode(kContractMode); }

ScopedFloatMode::~ScopedFloatMode() { WriteMode(saved_); }

}  // namespace octavo::base
