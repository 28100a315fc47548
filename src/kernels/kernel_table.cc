#include "kernels/kernel_table.h"

#include "base/cpu_features.h"
#include "kernels/kernel_sets.h"

namespace octavo::kernels {
namespace {

KernelTable Reference() {
  return {"reference", ReferenceMatMul(), ReferenceRowOps(), ReferenceAttention()};
}

#if defined(__x86_64__)
KernelTable Avx2() { return {"avx2", Avx2MatMul(), Avx2RowOps(), Avx2Attention()}; }
KernelTable Avx512() { return {"avx512", Avx512MatMul(), Avx512RowOps(), Avx512Attention()}; }
#elif defined(__aarch64__)
KernelTable Neon() { return {"neon", NeonMatMul(), NeonRowOps(), NeonAttention()}; }
#endif

}  // namespace

const KernelTable* FindKernels(Isa isa) {
#if defined(__x86_64__)
  static const base::CpuFeatures cpu = base::DetectCpuFeatures();
  if (!cpu.avx2) return nullptr;
  static const KernelTable avx2 = Avx2();
  static const KernelTable avx512 = Avx512();
  if (isa == Isa::kAvx2) return &avx2;
  if (isa == Isa::kAvx512) return cpu.avx512_vnni ? &avx512 : nullptr;
#elif defined(__aarch64__)
  static const KernelTable neon = Neon();
  if (isa == Isa::kNeon) return &neon;
#endif
  static const KernelTable reference = Reference();
  return isa == Isa::kReference ? &reference : nullptr;
}

const KernelTable* BestKernels() {
  for (const Isa isa : {Isa::kAvx512, Isa::kAvx2, Isa::kNeon}) {
    if (const KernelTable* table = FindKernels(isa)) return table;
  }
  return nullptr;
}

}  // namespace octavo::kernels
