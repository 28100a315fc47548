// Purpose:    A2's products of a few rows with weights in plain formats: straight from the panels,
//             as many columns (kLanes outputs) at once as hide the latency of their chains.
// Invariants: an element's chain runs over ascending inputs.

#if defined(OCTAVO_KERNELS_SIMD_MATMUL_PLAIN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTAVO_KERNELS_SIMD_MATMUL_PLAIN_INL_H
#undef OCTAVO_KERNELS_SIMD_MATMUL_PLAIN_INL_H
#else
#define OCTAVO_KERNELS_SIMD_MATMUL_PLAIN_INL_H
#endif

#include <cstdint>

#include "base/check.h"
#include "kernels/matmul.h"
#include "kernels/simd/panel-inl.h"
#include "kernels/simd/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace octavo::kernels {
namespace HWY_NAMESPACE {

// Up to this many rows the weights are widened anew for each; above it, into a buffer for all.
inline constexpr int64_t kMaxPlainRows = 4;
inline constexpr int kPlainChains = 8;

template <DType kType>
HWY_INLINE Vf LoadPlain(const uint8_t* weights) {
  if constexpr (kType == DType::kF32) {
    return hn::LoadU(Df(), reinterpret_cast<const float*>(weights));
  } else if constexpr (kType == DType::kF16) {
    return LoadHalves(weights);
  } else {
    const hn::Rebind<hwy::bfloat16_t, Df> db;
    return hn::PromoteTo(Df(), hn::LoadU(db, reinterpret_cast<const hwy::bfloat16_t*>(weights)));
  }
}

// What one call multiplies: columns up to `end` with all rows of x.
struct PlainJob {
  const PackedMatrixView& w;
  const float* x;
  int64_t x_stride;
  int64_t end;
  float* out;
  int64_t out_stride;
};

// Columns from `first` on; those from job.end on repeat the last one and store nothing.
template <DType kType, int kColumns, int kRows>
HWY_INLINE void PlainColumns(const PlainJob& job, int64_t first) {
  constexpr int64_t kElementBytes = kType == DType::kF32 ? 4 : 2;
  constexpr int64_t kInputBytes = quant::kPanelOutputs * kElementBytes;
  const uint8_t* weights[kColumns];
  Vf acc[kColumns][kRows];
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) {
    const int64_t index = HWY_MIN(first + c, job.end - 1);
    weights[c] = reinterpret_cast<const uint8_t*>(job.w.data) +
                 static_cast<size_t>(index / kColumnsPerPanel) * job.w.panel_bytes +
                 index % kColumnsPerPanel * kLanes * kElementBytes;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) acc[c][r] = hn::Zero(Df());
  }
  for (int64_t k = 0; k < job.w.num_inputs; ++k) {
    Vf x[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) x[r] = hn::Set(Df(), job.x[r * job.x_stride + k]);
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) {
      const Vf w = LoadPlain<kType>(weights[c] + k * kInputBytes);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) acc[c][r] = hn::MulAdd(x[r], w, acc[c][r]);
    }
  }
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) {
    if (first + c >= job.end) break;
    const int64_t index = first + c;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      StoreLanes(acc[c][r], LanesOf(job.w, index), job.out + r * job.out_stride + index * kLanes);
    }
  }
}

template <DType kType, int kRows>
HWY_NOINLINE void PlainRows(const PlainJob& job, int64_t begin) {
  constexpr int kColumns = kPlainChains / kRows;
  for (int64_t c = begin; c < job.end; c += kColumns) PlainColumns<kType, kColumns, kRows>(job, c);
}

template <DType kType>
void MultiplyPlain(const PlainJob& job, int64_t begin, int64_t num_rows) {
  switch (num_rows) {
    case 1:
      return PlainRows<kType, 1>(job, begin);
    case 2:
      return PlainRows<kType, 2>(job, begin);
    case 3:
      return PlainRows<kType, 3>(job, begin);
    default:
      return PlainRows<kType, 4>(job, begin);
  }
}

// REQUIRES: a plain format, 1 to kMaxPlainRows rows.
void FewPlainRows(const PlainJob& job, int64_t begin, int64_t num_rows) {
  OCTAVO_DCHECK(1 <= num_rows && num_rows <= kMaxPlainRows, "few rows");
  if (job.w.dtype == DType::kF32) return MultiplyPlain<DType::kF32>(job, begin, num_rows);
  if (job.w.dtype == DType::kF16) return MultiplyPlain<DType::kF16>(job, begin, num_rows);
  MultiplyPlain<DType::kBF16>(job, begin, num_rows);
}

}  // namespace HWY_NAMESPACE
}  // namespace octavo::kernels
HWY_AFTER_NAMESPACE();

#endif  // OCTAVO_KERNELS_SIMD_MATMUL_PLAIN_INL_H
