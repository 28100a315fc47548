#pragma once

// Purpose:    what this processor and its operating system let us run, as the kernel tables need
//             it.
// Threading:  any thread; the answer never changes.

namespace octavo::base {

struct CpuFeatures {
  // AVX2, FMA and F16C, and the system saves the YMM registers.
  bool avx2 = false;
  // Besides, AVX-512 F, BW, DQ, VL and VNNI, and the system saves the ZMM registers.
  bool avx512_vnni = false;
};

// Asks the processor (CPUID and XGETBV); all false on other architectures.
CpuFeatures DetectCpuFeatures();

}  // namespace octavo::base
