// The row kernels of every target.

#include <cmath>
#include <cstdint>
#include <limits>

#include "base/portable_math.h"
#include "kernels/kernel_sets.h"
#include "kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/row_ops.cc"
#include "hwy/foreach_target.h"
//
#include "kernels/simd/row_ops-inl.h"

#if HWY_ONCE
namespace octavo::kernels {

#if defined(__x86_64__)
RowOpKernels Avx2RowOps() { return N_AVX2::kRowOps; }
RowOpKernels Avx512RowOps() { return N_AVX3::kRowOps; }
#else
RowOpKernels NeonRowOps() { return N_NEON::kRowOps; }
#endif

}  // namespace octavo::kernels
#endif
