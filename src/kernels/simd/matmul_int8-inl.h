// Purpose:    A4's products: register tiles of columns (kLanes outputs) x rows, in the canonical order per element.
// Invariants: a tile's integer sums of one group are exact, so their order is free; the float chain runs over ascending groups.

#if defined(OCTAVO_KERNELS_SIMD_MATMUL_INT8_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTAVO_KERNELS_SIMD_MATMUL_INT8_INL_H
#undef OCTAVO_KERNELS_SIMD_MATMUL_INT8_INL_H
#else
#define OCTAVO_KERNELS_SIMD_MATMUL_INT8_INL_H
#endif

#include <cstdint>
#include <type_traits>

#include "base/check.h"
#include "kernels/matmul.h"
#include "kernels/simd/panel-inl.h"
#include "kernels/simd/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace octavo::kernels {
namespace HWY_NAMESPACE {

// The most rows that a tile's sums and accumulators keep in registers.
template <DType kType>
constexpr int MaxTileRows() {
  if (HWY_TARGET != HWY_AVX3) return 4;
  return 6;
}

// Columns of a tile. One row is bound by memory: it takes one panel at a time, so that the weights are read in their order.
template <int kRows>
constexpr int TileColumns() {
  if (kRows == 1) return kColumnsPerPanel;
  return HWY_TARGET == HWY_AVX2 ? 1 : 2;
}

// How far ahead of the weights in use a tile prefetches. One row: 4 KiB on (measured: 12 GB/s without, 25 with 4 or 8 KiB, 17
// with 2, where a plain read of the same memory reaches 26). Several rows: the next tile's columns.
template <int kRows>
HWY_INLINE int64_t PrefetchDistance(size_t panel_bytes) {
  if (kRows == 1) return 4096;
  return static_cast<int64_t>(panel_bytes) * HWY_MAX(TileColumns<kRows>() / kColumnsPerPanel, 1);
}

// The rows of one tile, from the tile's first row on.
struct TileRows {
  const int8_t* codes;
  const float* scales;
  const float* scaled_sums;
  const int16_t* half_sums;
  int64_t num_inputs;

  HWY_INLINE const int8_t* Codes(int row, int64_t group) const {
    return codes + row * num_inputs + group * quant::kGroupInputs;
  }
  HWY_INLINE const int16_t* HalfSums(int row, int64_t group) const {
    return half_sums + row * (num_inputs / 16) + group * 2;
  }
  HWY_INLINE int64_t Group(int row, int64_t group) const {
    return row * (num_inputs / quant::kGroupInputs) + group;
  }
};

HWY_INLINE TileRows TileRowsAt(const QuantizedRows& x, int64_t row) {
  const int64_t groups = x.num_inputs / quant::kGroupInputs;
  return {x.codes + row * x.num_inputs, x.scales + row * groups, x.scaled_sums + row * groups,
          x.half_sums + row * groups * 2, x.num_inputs};
}

// One tile's weights and where its results go.
template <int kColumns>
struct TileColumnsOf {
  Column columns[kColumns];
  float* out[kColumns];       // row 0's first output of the column
  int64_t lanes[kColumns];    // outputs to store
  int64_t prefetch_distance;  // bytes
};

// sums[c][r] = the exact sum of q * a over quads [kFirst, kFirst + kCount) of group g.
template <DType kType, int kFirst, int kCount, int kColumns, int kRows>
HWY_INLINE void SumQuads(const uint8_t* const (&codes)[kColumns], const TileRows& x, int64_t g,
                         Vi (&sums)[kColumns][kRows]) {
  using Dot = QuadDot<LargestOperand<kType>()>;
  constexpr int kBias = Dot::kUnsigned ? BiasOf<kType>() : 0;
  constexpr int kFlush = HWY_MIN(Dot::kQuadsPerFlush, kCount);

#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    Vi start = hn::Zero(Di());
    if constexpr (kBias != 0) {
      // -kBias times the sum of the activations of the halves that the quads cover.
      constexpr int kLow = kFirst == 0 ? -kBias : 0;
      constexpr int kHigh = kFirst + kCount == 8 ? -kBias : 0;
      constexpr int kPair = static_cast<int>(static_cast<unsigned>(kLow) & 0xffffu) | kHigh * 65536;
      start = PairDot(BroadcastWord(x.HalfSums(r, g)), hn::Set(Di(), kPair));
    }
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) sums[c][r] = start;
  }

  typename Dot::Sum partial[kColumns][kRows];
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) {
    // Of 4-bit codes a vector holds quads t and t + 4: take both at once.
    const int t = kCount == 8 && quant::PackedFormatOf(kType).code_bits == 4
                      ? (i & 1) * 4 + (i >> 1)
                      : kFirst + i;
    V8 w[kColumns];
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) w[c] = LoadCodes<kType, Dot::kUnsigned>(codes[c], t);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const Vi quad = BroadcastWord(x.Codes(r, g) + 4 * t);
#pragma GCC unroll 16
      for (int c = 0; c < kColumns; ++c) {
        if constexpr (std::is_same_v<typename Dot::Sum, Vi>) {
          sums[c][r] = Dot::Add(sums[c][r], w[c], quad);
        } else {
          if (i % kFlush == 0) partial[c][r] = Dot::Start();
          partial[c][r] = Dot::Add(partial[c][r], w[c], quad);
          if (i % kFlush == kFlush - 1) {
            sums[c][r] = hn::Add(sums[c][r], Dot::Flush(partial[c][r]));
          }
        }
      }
    }
  }
}

// The scales and minima of one group of one column.
struct GroupScales {
  Vf d;
  Vf minimum;      // m or dmin
  Vf scale[2];     // K-formats: sc of the halves
  Vi minima_pair;  // K-formats: mn of the halves, as 16-bit pairs
};

template <DType kType>
HWY_INLINE GroupScales LoadScales(const Column& column, int64_t g) {
  constexpr PackedFormat kFormat = quant::PackedFormatOf(kType);
  GroupScales s;
  const int64_t block = kFormat.is_k() ? g / quant::kGroupsPerSuperblock : g;
  const uint8_t* halves = column.halves + block * kFormat.scale_stride();
  s.d = LoadHalves(halves);
  if constexpr (kFormat.has_min) s.minimum = LoadHalves(halves + 2 * quant::kPanelOutputs);
  if constexpr (kFormat.is_k()) {
    constexpr int64_t kMinima = quant::kSuperblockInputs / kFormat.sub_block * quant::kPanelOutputs;
    constexpr int64_t kPerGroup = quant::kGroupInputs / kFormat.sub_block;
    const uint8_t* scales = column.bytes + block * kFormat.scale_stride() +
                            g % quant::kGroupsPerSuperblock * kPerGroup * quant::kPanelOutputs;
    s.scale[0] = hn::ConvertTo(Df(), LoadBytes(scales));
    if constexpr (kPerGroup == 2) {
      s.scale[1] = hn::ConvertTo(Df(), LoadBytes(scales + quant::kPanelOutputs));
    }
    if constexpr (kFormat.has_min) {
      const Vi low = LoadBytes(scales + kMinima);
      const Vi high = kPerGroup == 2 ? LoadBytes(scales + kMinima + quant::kPanelOutputs) : low;
      s.minima_pair = hn::Or(low, hn::ShiftLeft<16>(high));
    }
  }
  return s;
}

// The integer I of A4 as float32. For K-formats it is computed in float32, where it is exact: |sc * isum| summed over both halves
// stays below 2 * 128 * 16 * 32 * 127 < 2^24.
template <DType kType, int kColumns, int kRows>
HWY_INLINE void SumGroup(const uint8_t* const (&codes)[kColumns], const TileRows& x, int64_t g,
                         const GroupScales (&scales)[kColumns], Vf (&result)[kColumns][kRows]) {
  constexpr int kSubBlock = quant::PackedFormatOf(kType).sub_block;
  constexpr int kFirstCount = kSubBlock == 16 ? 4 : 8;
  Vi sums[kColumns][kRows];
  SumQuads<kType, 0, kFirstCount>(codes, x, g, sums);
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      result[c][r] = hn::ConvertTo(Df(), sums[c][r]);
      if constexpr (kSubBlock != 0) result[c][r] = hn::Mul(result[c][r], scales[c].scale[0]);
    }
  }
  if constexpr (kSubBlock == 16) {
    SumQuads<kType, 4, 4>(codes, x, g, sums);
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) {
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        result[c][r] =
            hn::MulAdd(hn::ConvertTo(Df(), sums[c][r]), scales[c].scale[1], result[c][r]);
      }
    }
  }
}

// Prefetches a panel's share of one group, `distance` bytes ahead. It may point beyond the matrix, which does no harm.
template <DType kType>
HWY_INLINE void PrefetchGroup(const Column& column, int64_t g, int64_t distance) {
  constexpr PackedFormat kFormat = quant::PackedFormatOf(kType);
  constexpr int64_t kScales =
      kFormat.scale_stride() / (kFormat.is_k() ? quant::kGroupsPerSuperblock : 1);
  constexpr int64_t kBytes = kFormat.group_bytes() + kScales;
  const uint8_t* ahead = column.halves + distance + g * kBytes;
#pragma GCC unroll 16
  for (int64_t i = 0; i < kBytes; i += 64) __builtin_prefetch(ahead + i);
}

template <DType kType, int kColumns, int kRows>
HWY_INLINE void AddGroup(const Column (&columns)[kColumns], int64_t prefetch_distance,
                         const TileRows& x, int64_t g, Vf (&acc)[kColumns][kRows]) {
  constexpr PackedFormat kFormat = quant::PackedFormatOf(kType);
  GroupScales scales[kColumns];
  const uint8_t* codes[kColumns];
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) {
    if (c % kColumnsPerPanel == 0) PrefetchGroup<kType>(columns[c], g, prefetch_distance);
    scales[c] = LoadScales<kType>(columns[c], g);
    codes[c] = columns[c].codes + g * kFormat.group_bytes();
  }
  Vf sums[kColumns][kRows];
  SumGroup<kType>(codes, x, g, scales, sums);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const Vf da = hn::Set(Df(), x.scales[x.Group(r, g)]);
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) {
      acc[c][r] = hn::MulAdd(sums[c][r], hn::Mul(scales[c].d, da), acc[c][r]);
      if constexpr (kFormat.has_min && !kFormat.is_k()) {
        const Vf scaled_sum = hn::Set(Df(), x.scaled_sums[x.Group(r, g)]);
        acc[c][r] = hn::MulAdd(scales[c].minimum, scaled_sum, acc[c][r]);
      }
      if constexpr (kFormat.has_min && kFormat.is_k()) {
        const Vi minima = PairDot(BroadcastWord(x.HalfSums(r, g)), scales[c].minima_pair);
        acc[c][r] =
            hn::NegMulAdd(hn::ConvertTo(Df(), minima), hn::Mul(scales[c].minimum, da), acc[c][r]);
      }
    }
  }
}

template <DType kType, int kColumns, int kRows>
HWY_NOINLINE void Int8Tile(const TileColumnsOf<kColumns>& w, const TileRows& x,
                           int64_t out_stride) {
  Column columns[kColumns];
  Vf acc[kColumns][kRows];
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) {
    columns[c] = w.columns[c];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) acc[c][r] = hn::Zero(Df());
  }
  const TileRows rows = x;
  const int64_t distance = w.prefetch_distance;
  const int64_t num_groups = x.num_inputs / quant::kGroupInputs;
  for (int64_t g = 0; g < num_groups; ++g) AddGroup<kType>(columns, distance, rows, g, acc);
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      StoreLanes(acc[c][r], w.lanes[c], w.out[c] + r * out_stride);
    }
  }
}

// Columns [first, first + kColumns) of the range; those at or beyond `end` repeat the last one and store nothing.
template <DType kType, int kColumns>
HWY_INLINE TileColumnsOf<kColumns> TileColumnsAt(const PackedMatrixView& w, int64_t first,
                                                 int64_t end, float* out) {
  TileColumnsOf<kColumns> tile;
  for (int c = 0; c < kColumns; ++c) {
    const int64_t index = HWY_MIN(first + c, end - 1);
    tile.columns[c] = ColumnAt<kType>(w, index);
    tile.lanes[c] = first + c < end ? LanesOf(w, index) : 0;
    tile.out[c] = out + index * kLanes;
  }
  return tile;
}

// All columns of the range for rows [row, row + num_rows), num_rows <= MaxTileRows.
struct Int8Job {
  const PackedMatrixView& w;
  const QuantizedRows& x;
  int64_t column_begin;
  int64_t column_end;
  float* out;
  int64_t out_stride;
};

template <DType kType, int kRows, int kColumns>
HWY_INLINE void Int8Rows(const Int8Job& job, int64_t column, int64_t row) {
  constexpr int kStep = TileColumns<kRows>();
  float* out = job.out + row * job.out_stride;
  const TileRows x = TileRowsAt(job.x, row);
  for (int64_t c = column; c < HWY_MIN(column + kColumns, job.column_end); c += kStep) {
    TileColumnsOf<kStep> tile = TileColumnsAt<kType, kStep>(job.w, c, job.column_end, out);
    tile.prefetch_distance = PrefetchDistance<kRows>(job.w.panel_bytes);
    Int8Tile<kType, kStep, kRows>(tile, x, job.out_stride);
  }
}

// Rows [row_begin, row_end) by the columns from `column` on that are walked together (kColumns).
template <DType kType, int kColumns>
void Int8RowBlock(const Int8Job& job, int64_t column, int64_t row_begin, int64_t row_end) {
  constexpr int kMax = MaxTileRows<kType>();
  int64_t tiles = (row_end - row_begin + kMax - 1) / kMax;
  for (int64_t row = row_begin; row < row_end; --tiles) {
    // Tiles of nearly equal height: 8 rows are 4 + 4, not 6 + 2.
    const int64_t rows = (row_end - row + tiles - 1) / tiles;
    switch (rows) {
      case 1:
        Int8Rows<kType, 1, kColumns>(job, column, row);
        break;
      case 2:
        Int8Rows<kType, 2, kColumns>(job, column, row);
        break;
      case 3:
        Int8Rows<kType, 3, kColumns>(job, column, row);
        break;
      case 4:
        Int8Rows<kType, 4, kColumns>(job, column, row);
        break;
      case 5:
        if constexpr (kMax >= 5) Int8Rows<kType, 5, kColumns>(job, column, row);
        break;
      default:
        if constexpr (kMax >= 6) Int8Rows<kType, 6, kColumns>(job, column, row);
        break;
    }
    row += rows;
  }
}

template <DType kType>
void Int8Matrix(const PackedMatrixView& w, const QuantizedRows& x, int64_t num_rows,
                PanelRange range, float* out, int64_t out_stride) {
  constexpr int64_t kActivationBytes =
      256 * 1024;  // of codes that stay in L2 while the panels pass
  constexpr int kColumns = 4;
  const Int8Job job = {w,   x,         range.begin * kColumnsPerPanel, range.end * kColumnsPerPanel,
                       out, out_stride};
  const int64_t block_rows = HWY_MAX(kActivationBytes / x.num_inputs, int64_t{16});
  for (int64_t row = 0; row < num_rows; row += block_rows) {
    const int64_t row_end = HWY_MIN(row + block_rows, num_rows);
    for (int64_t c = job.column_begin; c < job.column_end; c += kColumns) {
      Int8RowBlock<kType, kColumns>(job, c, row, row_end);
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
