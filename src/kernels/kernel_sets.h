#pragma once

// Purpose:    the sub-tables of each instruction set; kernel_table.cc joins them. Each is defined
//             in the translation unit of its operation: reference/{matmul,row_ops,attention}.cc and
//             simd/{matmul,row_ops,attention}.cc.
// Threading:  pure. Asking for a table runs on any processor; calling its kernels needs the
//             instruction set.

#include "kernels/attention.h"
#include "kernels/matmul.h"
#include "kernels/row_ops.h"

namespace octavo::kernels {

MatMulKernels ReferenceMatMul();
RowOpKernels ReferenceRowOps();
AttentionKernels ReferenceAttention();

#if defined(__x86_64__)
MatMulKernels Avx2MatMul();
RowOpKernels Avx2RowOps();
AttentionKernels Avx2Attention();

MatMulKernels Avx512MatMul();
RowOpKernels Avx512RowOps();
AttentionKernels Avx512Attention();
#elif defined(__aarch64__)
MatMulKernels NeonMatMul();
RowOpKernels NeonRowOps();
AttentionKernels NeonAttention();
#endif

}  // namespace octavo::kernels
