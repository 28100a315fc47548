// The attention kernels of every target.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/check.h"
#include "kernels/kernel_sets.h"
#include "kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/attention.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
//
#include "kernels/simd/attention-inl.h"

#if HWY_ONCE
namespace octavo::kernels {

#if defined(__x86_64__)
AttentionKernels Avx2Attention() { return N_AVX2::kAttention; }
AttentionKernels Avx512Attention() { return N_AVX3::kAttention; }
#else
AttentionKernels NeonAttention() { return N_NEON::kAttention; }
#endif

}  // namespace octavo::kernels
#endif
