// Purpose:    products of quantised rows (A4 and A4b): how rows and columns are cut into tiles. One
//             row: panels in their order, each read once. A few rows: the weights of a tile are
//             unpacked once for all its rows. Many rows: the codes of a panel or two are first
//             expanded into a buffer that stays in L1 or L2, so that the tiles do not unpack them
//             again.
// Invariants: neither the cuts nor the expansion change a bit of the result.
// `Tiles` below is Int8Tiles<type> or Int16Tiles<type>: the arithmetic.

#if defined(OCTAVO_KERNELS_SIMD_MATMUL_QUANTIZED_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTAVO_KERNELS_SIMD_MATMUL_QUANTIZED_INL_H
#undef OCTAVO_KERNELS_SIMD_MATMUL_QUANTIZED_INL_H
#else
#define OCTAVO_KERNELS_SIMD_MATMUL_QUANTIZED_INL_H
#endif

#include <cstdint>

#include "base/check.h"
#include "kernels/matmul.h"
#include "kernels/simd/int16_tile-inl.h"
#include "kernels/simd/int8_tile-inl.h"
#include "kernels/simd/panel-inl.h"
#include "kernels/simd/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace octavo::kernels {
namespace HWY_NAMESPACE {

// What one call multiplies.
template <class Tiles>
struct QuantizedJob {
  const PackedMatrixView& w;
  const typename Tiles::Input& x;
  int64_t column_end;  // of the range
  float* out;
  int64_t out_stride;
};

// Columns [column_begin, column_end) by rows [row_begin, row_end) in inputs of groups [group_begin,
// group_end). `expanded` holds the columns' codes of these groups, or is null.
struct QuantizedBlock {
  int64_t column_begin;
  int64_t column_end;
  int64_t row_begin;
  int64_t row_end;
  int64_t group_begin;
  int64_t group_end;
  const uint8_t* expanded;
};

template <class Tiles>
constexpr int64_t ExpandedColumnBytes() {
  return Tiles::kExpandedGroups * Tiles::kExpandedGroupBytes;
}

template <class Tiles>
struct ExpandedCodes {
  alignas(64) uint8_t bytes[kBlockColumns * ExpandedColumnBytes<Tiles>()];
};

// Columns [first, first + kColumns); those at or beyond the block's end repeat the last one and
// store nothing.
template <class Tiles, int kColumns>
HWY_INLINE TileColumnsOf<kColumns> TileColumnsAt(const QuantizedJob<Tiles>& job,
                                                 const QuantizedBlock& block, int64_t first,
                                                 int64_t row) {
  TileColumnsOf<kColumns> tile;
  for (int c = 0; c < kColumns; ++c) {
    const int64_t index = HWY_MIN(first + c, block.column_end - 1);
    tile.columns[c] = ColumnAt<Tiles::kDtype>(job.w, index);
    if (block.expanded != nullptr) {
      tile.columns[c].codes =
          block.expanded + (index - block.column_begin) * ExpandedColumnBytes<Tiles>();
    }
    tile.lanes[c] = first + c < block.column_end ? LanesOf(job.w, index) : 0;
    tile.out[c] = job.out + row * job.out_stride + index * kLanes;
  }
  tile.group_begin = block.group_begin;
  tile.group_end = block.group_end;
  return tile;
}

// The block's columns by rows [row, row + kRows), which are the `index`-th of `count` such parts.
template <class Tiles, bool kExpanded, int kRows>
void MultiplyRows(const QuantizedJob<Tiles>& job, const QuantizedBlock& block, int64_t row,
                  int64_t index, int64_t count) {
  constexpr int kStep = TileColumns<kRows>();
  constexpr int kSteps = kBlockColumns / kStep;
  for (int64_t c = block.column_begin; c < block.column_end; c += kStep) {
    TileColumnsOf<kStep> tile = TileColumnsAt<Tiles, kStep>(job, block, c, row);
    if constexpr (!kExpanded && kRows > 1) {
      tile.prefetch =
          PrefetchOfTile(job.w.panel_bytes, index * kSteps + (c - block.column_begin) / kStep,
                         count * kSteps, block.group_end - block.group_begin);
    }
    Tiles::template Multiply<kExpanded, kStep, kRows>(tile, job.x, row, job.out_stride);
  }
}

// All rows of the block, in tiles of nearly equal height: 8 rows are 4 + 4, not 6 + 2.
template <class Tiles, bool kExpanded>
void MultiplyAllRows(const QuantizedJob<Tiles>& job, const QuantizedBlock& block) {
  constexpr int kMax = kMaxTileRows;
  constexpr int kMin = kExpanded ? kMinExpandedTileRows : 1;
  const int64_t count = (block.row_end - block.row_begin + kMax - 1) / kMax;
  int64_t row = block.row_begin;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t rows = (block.row_end - row + count - i - 1) / (count - i);
    switch (rows) {
      case 1:
        if constexpr (kMin <= 1) MultiplyRows<Tiles, kExpanded, 1>(job, block, row, i, count);
        break;
      case 2:
        if constexpr (kMin <= 2) MultiplyRows<Tiles, kExpanded, 2>(job, block, row, i, count);
        break;
      case 3:
        if constexpr (kMin <= 3) MultiplyRows<Tiles, kExpanded, 3>(job, block, row, i, count);
        break;
      case 4:
        if constexpr (kMin <= 4) MultiplyRows<Tiles, kExpanded, 4>(job, block, row, i, count);
        break;
      case 5:
        if constexpr (kMax >= 5) MultiplyRows<Tiles, kExpanded, 5>(job, block, row, i, count);
        break;
      default:
        if constexpr (kMax >= 6) MultiplyRows<Tiles, kExpanded, 6>(job, block, row, i, count);
        break;
    }
    row += rows;
  }
}

// The operands of the block's columns and groups into `codes`; prefetches the panels after them.
template <class Tiles>
void ExpandCodes(const QuantizedJob<Tiles>& job, const QuantizedBlock& block,
                 ExpandedCodes<Tiles>* codes) {
  constexpr int64_t kPackedBytes = quant::PackedFormatOf(Tiles::kDtype).group_bytes();
  const int64_t distance =
      static_cast<int64_t>(job.w.panel_bytes) * (kBlockColumns / kColumnsPerPanel);
  for (int64_t c = block.column_begin; c < block.column_end; ++c) {
    const Column column = ColumnAt<Tiles::kDtype>(job.w, c);
    uint8_t* target = codes->bytes + (c - block.column_begin) * ExpandedColumnBytes<Tiles>();
    for (int64_t g = block.group_begin; g < block.group_end; ++g) {
      PrefetchGroup<Tiles::kDtype, 2>(column, g, distance);
      Tiles::Expand(column.codes + g * kPackedBytes, target);
      target += Tiles::kExpandedGroupBytes;
    }
  }
}

// Rows [row_begin, row_end) of the columns from `column_begin` on, through expanded codes.
template <class Tiles>
void MultiplyExpanded(const QuantizedJob<Tiles>& job, int64_t column_begin, int64_t row_begin,
                      int64_t row_end) {
  ExpandedCodes<Tiles> codes;
  const int64_t num_groups = job.x.num_inputs / quant::kGroupInputs;
  for (int64_t c = column_begin; c < job.column_end; c += kBlockColumns) {
    for (int64_t g = 0; g < num_groups; g += Tiles::kExpandedGroups) {
      const QuantizedBlock block = {
          c, HWY_MIN(c + kBlockColumns, job.column_end),      row_begin,  row_end,
          g, HWY_MIN(g + Tiles::kExpandedGroups, num_groups), codes.bytes};
      ExpandCodes<Tiles>(job, block, &codes);
      MultiplyAllRows<Tiles, true>(job, block);
    }
  }
}

template <class Tiles>
void MultiplyQuantized(const PackedMatrixView& w, const typename Tiles::Input& x, int64_t num_rows,
                       PanelRange range, float* out, int64_t out_stride) {
  // Rows whose codes stay in L2 while the panels pass.
  constexpr int64_t kActivationBytes = 256 * 1024;
  const int64_t column_begin = range.begin * kColumnsPerPanel;
  const QuantizedJob<Tiles> job = {w, x, range.end * kColumnsPerPanel, out, out_stride};
  const int64_t block_rows =
      HWY_MAX(kActivationBytes / (x.num_inputs * static_cast<int64_t>(sizeof(*x.codes))),
              int64_t{4 * kMaxTileRows});
  const int64_t num_groups = x.num_inputs / quant::kGroupInputs;
  for (int64_t row = 0; row < num_rows; row += block_rows) {
    const int64_t row_end = HWY_MIN(row + block_rows, num_rows);
    if constexpr (Tiles::kExpands) {
      if (row_end - row >= kExpandedRows) {
        MultiplyExpanded<Tiles>(job, column_begin, row, row_end);
        continue;
      }
    }
    const int64_t step = num_rows == 1 ? job.column_end - column_begin : kBlockColumns;
    for (int64_t c = column_begin; c < job.column_end; c += step) {
      const int64_t column_end = HWY_MIN(c + step, job.column_end);
      MultiplyAllRows<Tiles, false>(job, {c, column_end, row, row_end, 0, num_groups, nullptr});
    }
  }
}

// Calls function.operator()<dtype>(). REQUIRES: a quantised format.
template <class Function>
HWY_INLINE void WithFormat(DType dtype, const Function& function) {
  switch (dtype) {
    case DType::kQ4_0:
      return function.template operator()<DType::kQ4_0>();
    case DType::kQ4_1:
      return function.template operator()<DType::kQ4_1>();
    case DType::kQ5_0:
      return function.template operator()<DType::kQ5_0>();
    case DType::kQ5_1:
      return function.template operator()<DType::kQ5_1>();
    case DType::kQ8_0:
      return function.template operator()<DType::kQ8_0>();
    case DType::kIQ4_NL:
      return function.template operator()<DType::kIQ4_NL>();
    case DType::kQ2_K:
      return function.template operator()<DType::kQ2_K>();
    case DType::kQ3_K:
      return function.template operator()<DType::kQ3_K>();
    case DType::kQ4_K:
      return function.template operator()<DType::kQ4_K>();
    case DType::kQ5_K:
      return function.template operator()<DType::kQ5_K>();
    case DType::kQ6_K:
      return function.template operator()<DType::kQ6_K>();
    default:
      OCTAVO_CHECK(false, "a quantised format");
  }
}

void Int8(const PackedMatrixView& w, const QuantizedRows& x, int64_t num_rows, PanelRange range,
          float* out, int64_t out_stride) {
  WithFormat(w.dtype, [&]<DType kType>() {
    MultiplyQuantized<Int8Tiles<kType> >(w, x, num_rows, range, out, out_stride);
  });
}

void Int16(const PackedMatrixView& w, const QuantizedRows16& x, int64_t num_rows, PanelRange range,
           float* out, int64_t out_stride) {
  WithFormat(w.dtype, [&]<DType kType>() {
    MultiplyQuantized<Int16Tiles<kType> >(w, x, num_rows, range, out, out_stride);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace octavo::kernels
HWY_AFTER_NAMESPACE();

#endif  // OCTAVO_KERNELS_SIMD_MATMUL_QUANTIZED_INL_H
