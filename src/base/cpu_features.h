#pragma once

// Purpose:    what this processor and its operating system let us run, as the kernel tables need it.
// Threading:  any thread; the answer never changes.

namespace octavo::base {

struct CpuFeatures {
  bool avx2 = false;  // AVX2, FMA and F16C, and the system saves the YMM registers
  bool avx512_vnni =
      false;  // AVX-512 F, BW, DQ, VL, VBMI and VNNI besides, and the system saves the ZMM registers
};

// Asks the processor (CPUID and XGETBV); all false on other architectures.
CpuFeatures DetectCpuFeatures();

}  // namespace octavo::base
