// Purpose:    A4's products: how rows and columns are cut into tiles. One row: panels in their
//             order, each read once. A few rows: the weights of a tile are unpacked once for all
//             its rows. Many rows of 4-bit codes: the codes of a panel or two are first expanded
//             into a buffer that stays in L1 or L2, so that the tiles do not unpack them again.
// Invariants: neither the cuts nor the expansion change a bit of the result.

#if defined(OCTAVO_KERNELS_SIMD_MATMUL_INT8_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTAVO_KERNELS_SIMD_MATMUL_INT8_INL_H
#undef OCTAVO_KERNELS_SIMD_MATMUL_INT8_INL_H
#else
#define OCTAVO_KERNELS_SIMD_MATMUL_INT8_INL_H
#endif

#include <cstdint>

#include "base/check.h"
#include "kernels/matmul.h"
#include "kernels/simd/int8_tile-inl.h"
#include "kernels/simd/panel-inl.h"
#include "kernels/simd/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace octavo::kernels {
namespace HWY_NAMESPACE {

// What one call multiplies.
struct Int8Job {
  const PackedMatrixView& w;
  const QuantizedRows& x;
  int64_t column_end;  // of the range
  float* out;
  int64_t out_stride;
};

// Columns [column_begin, column_end) by rows [row_begin, row_end) in inputs of groups [group_begin,
// group_end). `expanded` holds the columns' codes of these groups, or is null.
struct Int8Block {
  int64_t column_begin;
  int64_t column_end;
  int64_t row_begin;
  int64_t row_end;
  int64_t group_begin;
  int64_t group_end;
  const uint8_t* expanded;
};

// 64 groups (2,048 inputs) of two panels (AVX-512) or one are 32 to 64 KiB.
inline constexpr int kExpandedColumns = HWY_MAX(2, kColumnsPerPanel);
inline constexpr int64_t kExpandedGroups = 64;
inline constexpr int64_t kExpandedColumnBytes = kExpandedGroups * kExpandedGroupBytes;

struct ExpandedCodes {
  alignas(64) uint8_t bytes[kExpandedColumns * kExpandedColumnBytes];
};

// Columns [first, first + kColumns); those at or beyond the block's end repeat the last one and
// store nothing.
template <DType kType, int kColumns>
HWY_INLINE TileColumnsOf<kColumns> TileColumnsAt(const Int8Job& job, const Int8Block& block,
                                                 int64_t first, int64_t row) {
  TileColumnsOf<kColumns> tile;
  for (int c = 0; c < kColumns; ++c) {
    const int64_t index = HWY_MIN(first + c, block.column_end - 1);
    tile.columns[c] = ColumnAt<kType>(job.w, index);
    if (block.expanded != nullptr) {
      tile.columns[c].codes = block.expanded + (index - block.column_begin) * kExpandedColumnBytes;
    }
    tile.lanes[c] = first + c < block.column_end ? LanesOf(job.w, index) : 0;
    tile.out[c] = job.out + row * job.out_stride + index * kLanes;
  }
  tile.group_begin = block.group_begin;
  tile.group_end = block.group_end;
  return tile;
}

// The block's columns by rows [row, row + kRows).
template <DType kType, bool kExpanded, int kRows>
void Int8Rows(const Int8Job& job, const Int8Block& block, int64_t row) {
  constexpr int kStep = TileColumns<kRows>();
  const TileRows x = TileRowsAt(job.x, row);
  for (int64_t c = block.column_begin; c < block.column_end; c += kStep) {
    TileColumnsOf<kStep> tile = TileColumnsAt<kType, kStep>(job, block, c, row);
    tile.prefetch_distance = PrefetchDistance<kRows>(job.w.panel_bytes);
    Int8Tile<kType, kExpanded, kStep, kRows>(tile, x, job.out_stride);
  }
}

// All rows of the block, in tiles of nearly equal height: 8 rows are 4 + 4, not 6 + 2.
template <DType kType, bool kExpanded>
void Int8AllRows(const Int8Job& job, const Int8Block& block) {
  constexpr int kMax = kMaxTileRows;
  constexpr int kMin = kExpanded ? kMinExpandedTileRows : 1;
  int64_t tiles = (block.row_end - block.row_begin + kMax - 1) / kMax;
  for (int64_t row = block.row_begin; row < block.row_end; --tiles) {
    const int64_t rows = (block.row_end - row + tiles - 1) / tiles;
    switch (rows) {
      case 1:
        if constexpr (kMin <= 1) Int8Rows<kType, kExpanded, 1>(job, block, row);
        break;
      case 2:
        if constexpr (kMin <= 2) Int8Rows<kType, kExpanded, 2>(job, block, row);
        break;
      case 3:
        if constexpr (kMin <= 3) Int8Rows<kType, kExpanded, 3>(job, block, row);
        break;
      case 4:
        if constexpr (kMin <= 4) Int8Rows<kType, kExpanded, 4>(job, block, row);
        break;
      case 5:
        if constexpr (kMax >= 5) Int8Rows<kType, kExpanded, 5>(job, block, row);
        break;
      default:
        if constexpr (kMax >= 6) Int8Rows<kType, kExpanded, 6>(job, block, row);
        break;
    }
    row += rows;
  }
}

// The operands of the block's columns and groups into `codes`; prefetches the panels after them.
template <DType kType>
void ExpandCodes(const Int8Job& job, const Int8Block& block, ExpandedCodes* codes) {
  constexpr int64_t kPackedBytes = quant::PackedFormatOf(kType).group_bytes();
  const int64_t distance =
      static_cast<int64_t>(job.w.panel_bytes) * (kExpandedColumns / kColumnsPerPanel);
  for (int64_t c = block.column_begin; c < block.column_end; ++c) {
    const Column column = ColumnAt<kType>(job.w, c);
    uint8_t* target = codes->bytes + (c - block.column_begin) * kExpandedColumnBytes;
    for (int64_t g = block.group_begin; g < block.group_end; ++g) {
      PrefetchGroup<kType>(column, g, distance);
#pragma GCC unroll 8
      for (int t = 0; t < 8; ++t) {
        const V8 operand =
            LoadCodes<kType, DotOf<kType>::kUnsigned>(column.codes + g * kPackedBytes, t);
        hn::Store(operand, D8(), target + t * kLanes * 4);
      }
      target += kExpandedGroupBytes;
    }
  }
}

// Rows [row_begin, row_end) of the columns from `column_begin` on, through expanded codes.
template <DType kType>
void Int8ExpandedRows(const Int8Job& job, int64_t column_begin, int64_t row_begin,
                      int64_t row_end) {
  ExpandedCodes codes;
  const int64_t num_groups = job.x.num_inputs / quant::kGroupInputs;
  for (int64_t c = column_begin; c < job.column_end; c += kExpandedColumns) {
    for (int64_t g = 0; g < num_groups; g += kExpandedGroups) {
      const Int8Block block = {
          c, HWY_MIN(c + kExpandedColumns, job.column_end), row_begin,  row_end,
          g, HWY_MIN(g + kExpandedGroups, num_groups),      codes.bytes};
      ExpandCodes<kType>(job, block, &codes);
      Int8AllRows<kType, true>(job, block);
    }
  }
}

template <DType kType>
void Int8Matrix(const PackedMatrixView& w, const QuantizedRows& x, int64_t num_rows,
                PanelRange range, float* out, int64_t out_stride) {
  // Rows whose codes stay in L2 while the panels pass, and columns whose weights stay in L1 while
  // these rows pass.
  constexpr int64_t kActivationBytes = 256 * 1024;
  constexpr int64_t kColumns = 4;
  const int64_t column_begin = range.begin * kColumnsPerPanel;
  const Int8Job job = {w, x, range.end * kColumnsPerPanel, out, out_stride};
  const int64_t block_rows = HWY_MAX(kActivationBytes / x.num_inputs, int64_t{4 * kMaxTileRows});
  const int64_t num_groups = x.num_inputs / quant::kGroupInputs;
  for (int64_t row = 0; row < num_rows; row += block_rows) {
    const int64_t row_end = HWY_MIN(row + block_rows, num_rows);
    if constexpr (quant::PackedFormatOf(kType).code_bits == 4) {
      if (row_end - row >= kExpandedRows) {
        Int8ExpandedRows<kType>(job, column_begin, row, row_end);
        continue;
      }
    }
    for (int64_t c = column_begin; c < job.column_end; c += kColumns) {
      const int64_t column_end = HWY_MIN(c + kColumns, job.column_end);
      Int8AllRows<kType, false>(job, {c, column_end, row, row_end, 0, num_groups, nullptr});
    }
  }
}

void Int8(const PackedMatrixView& w, const QuantizedRows& x, int64_t num_rows, PanelRange range,
          float* out, int64_t out_stride) {
  switch (w.dtype) {
    case DType::kQ4_0:
      return Int8Matrix<DType::kQ4_0>(w, x, num_rows, range, out, out_stride);
    case DType::kQ4_1:
      return Int8Matrix<DType::kQ4_1>(w, x, num_rows, range, out, out_stride);
    case DType::kQ5_0:
      return Int8Matrix<DType::kQ5_0>(w, x, num_rows, range, out, out_stride);
    case DType::kQ5_1:
      return Int8Matrix<DType::kQ5_1>(w, x, num_rows, range, out, out_stride);
    case DType::kQ8_0:
      return Int8Matrix<DType::kQ8_0>(w, x, num_rows, range, out, out_stride);
    case DType::kIQ4_NL:
      return Int8Matrix<DType::kIQ4_NL>(w, x, num_rows, range, out, out_stride);
    case DType::kQ2_K:
      return Int8Matrix<DType::kQ2_K>(w, x, num_rows, range, out, out_stride);
    case DType::kQ3_K:
      return Int8Matrix<DType::kQ3_K>(w, x, num_rows, range, out, out_stride);
    case DType::kQ4_K:
      return Int8Matrix<DType::kQ4_K>(w, x, num_rows, range, out, out_stride);
    case DType::kQ5_K:
      return Int8Matrix<DType::kQ5_K>(w, x, num_rows, range, out, out_stride);
    case DType::kQ6_K:
      return Int8Matrix<DType::kQ6_K>(w, x, num_rows, range, out, out_stride);
    default:
      OCTAVO_CHECK(false, "a quantised format");
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace octavo::kernels
HWY_AFTER_NAMESPACE();

#endif  // OCTAVO_KERNELS_SIMD_MATMUL_INT8_INL_H
