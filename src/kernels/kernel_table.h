#pragma once

// Purpose:    the kernels of one instruction set as a table of functions, chosen once per engine.
//             The reference table is the law (docs/contracts/arithmetic.md); every other table
//             equals it bit for bit on every input.
// Ownership:  tables are constants; kernels own nothing and allocate nothing.
// Threading:  pure functions of their arguments: any number of threads may call them on disjoint
//             outputs.
// Invariants: output elements depend on their own input row alone, never on num_rows or on how a
//             range is split.

#include <string_view>

#include "kernels/attention.h"
#include "kernels/matmul.h"
#include "kernels/row_ops.h"

namespace octavo::kernels {

struct KernelTable {
  std::string_view name;  // "reference", "avx2", "avx512" or "neon"
  MatMulKernels matmul;
  RowOpKernels rows;
  AttentionKernels attention;
};

enum class Isa { kReference, kAvx2, kAvx512, kNeon };

// The table of `isa`, or null when this processor cannot run it or this build does not hold it.
// kAvx512 needs F, BW, DQ, VL, VNNI (Cascade Lake, Zen 4 and later); kAvx2 needs AVX2, FMA and
// F16C, and so does kReference on x86-64.
const KernelTable* FindKernels(Isa isa);

// The fastest table of this processor, or null below the floor (x86-64-v3, or any 64-bit Arm).
const KernelTable* BestKernels();

}  // namespace octavo::kernels
