// The matrix products of every target.

#include "kernels/kernel_sets.h"
#include "kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/matmul.cc"
// Compiles this file once per target.
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/simd/matmul_float-inl.h"
#include "kernels/simd/matmul_quantized-inl.h"
#include "kernels/simd/quantize-inl.h"
#include "kernels/simd/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace octavo::kernels {
namespace HWY_NAMESPACE {

// A constant, not a function: asking for a table must run on any processor.
constexpr MatMulKernels kMatMul = {Int8, Int16, Float32, QuantizeRow, QuantizeRow16};

}  // namespace HWY_NAMESPACE
}  // namespace octavo::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace octavo::kernels {

#if defined(__x86_64__)
MatMulKernels Avx2MatMul() { return N_AVX2::kMatMul; }
MatMulKernels Avx512MatMul() { return N_AVX3::kMatMul; }
#else
MatMulKernels NeonMatMul() { return N_NEON::kMatMul; }
#endif

}  // namespace octavo::kernels
#endif
