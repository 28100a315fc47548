#pragma once

// Purpose:    which Highway targets the kernels are compiled for. Include it before anything of
//             Highway's, then hwy/foreach_target.h, then kernels/simd/target-inl.h in place of
//             hwy/highway.h.
// Invariants: x86-64: AVX2 (with FMA and F16C) and AVX3, whose functions we also let use VNNI
//             (target-inl.h). AVX3_DL is not used: Highway 1.0.3 compiles it with AVX-VNNI,
//             which Zen 4 and Ice Lake do not have, and without AVX512-VNNI. The baseline is named
//             here although the compiler's own is lower, so that Highway adds no scalar target;
//             kernel_table.cc checks the processor.

#if defined(__x86_64__)
#define HWY_BASELINE_TARGETS HWY_AVX2
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#elif defined(__aarch64__)
#define HWY_BASELINE_TARGETS HWY_NEON
// No run-time choice on Arm: NEON is baseline, and its code uses no AES.
#define TOOLCHAIN_MISS_SYS_AUXV_H
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#else
#error "octavo has kernels for x86-64 and 64-bit Arm"
#endif
