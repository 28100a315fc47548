// Purpose:    A2's products: a panel group's weights are decoded for a run of inputs into a buffer
//             that stays in L1, then all rows pass over it in register tiles of columns (kLanes
//             outputs) x rows. Few rows with plain weights: matmul_plain-inl.h.
// Invariants: an element's chain runs over ascending inputs; between runs it rests in the output.

#if defined(OCTAVO_KERNELS_SIMD_MATMUL_FLOAT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTAVO_KERNELS_SIMD_MATMUL_FLOAT_INL_H
#undef OCTAVO_KERNELS_SIMD_MATMUL_FLOAT_INL_H
#else
#define OCTAVO_KERNELS_SIMD_MATMUL_FLOAT_INL_H
#endif

#include <cstdint>

#include "base/check.h"
#include "kernels/matmul.h"
#include "kernels/simd/matmul_plain-inl.h"
#include "kernels/simd/panel-inl.h"
#include "kernels/simd/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace octavo::kernels {
namespace HWY_NAMESPACE {

// 128 inputs of 32 outputs are 16 KiB.
inline constexpr int64_t kRunInputs = 128;
inline constexpr int kRunPanels = 2;
inline constexpr int kRunColumns = kRunPanels * kColumnsPerPanel;
inline constexpr int kFloatTileRows = HWY_TARGET == HWY_AVX3 ? 8 : HWY_TARGET == HWY_AVX2 ? 6 : 4;
inline constexpr int kFloatTileColumns = HWY_TARGET == HWY_NEON ? 4 : 2;

// The decoded run: [kRunPanels][kRunInputs][16].
struct DecodedRun {
  alignas(64) float values[kRunPanels * kRunInputs * quant::kPanelOutputs];

  HWY_INLINE float* Panel(int64_t panel) {
    return values + panel * kRunInputs * quant::kPanelOutputs;
  }
};

// One group of one column into values[32][16].
template <DType kType>
HWY_INLINE void DecodeGroup(const uint8_t* codes, const Vf (&factor)[2], const Vf (&minimum)[2],
                            float* values) {
  constexpr PackedFormat kFormat = quant::PackedFormatOf(kType);
  const Di di;
#pragma GCC unroll 8
  for (int t = 0; t < 8; ++t) {
    const Vi quad = hn::BitCast(di, LoadCodes<kType, false>(codes, t));
    const Vi parts[4] = {hn::ShiftLeft<24>(quad), hn::ShiftLeft<16>(quad), hn::ShiftLeft<8>(quad),
                         quad};
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const Vf q = hn::ConvertTo(Df(), hn::ShiftRight<24>(parts[i]));
      Vf value;
      if constexpr (!kFormat.has_min) {
        value = hn::Mul(q, factor[t / 4]);
      } else if constexpr (kFormat.is_k()) {
        value = hn::MulSub(q, factor[t / 4], minimum[t / 4]);
      } else {
        value = hn::MulAdd(q, factor[t / 4], minimum[t / 4]);
      }
      hn::StoreU(value, Df(), values + (4 * t + i) * quant::kPanelOutputs);
    }
  }
}

// Inputs [begin, end) of column `index` into values[end - begin][16], at the column's lanes. begin
// and end: multiples of 32.
template <DType kType>
void DecodeColumn(const PackedMatrixView& w, int64_t index, int64_t begin, int64_t end,
                  float* values) {
  constexpr PackedFormat kFormat = quant::PackedFormatOf(kType);
  const Column column = ColumnAt<kType>(w, index);
  for (int64_t g = begin / quant::kGroupInputs; g < end / quant::kGroupInputs; ++g) {
    const int64_t block = kFormat.is_k() ? g / quant::kGroupsPerSuperblock : g;
    const uint8_t* halves = column.halves + block * kFormat.scale_stride();
    const Vf d = LoadHalves(halves);
    Vf factor[2] = {d, d};
    Vf minimum[2] = {hn::Zero(Df()), hn::Zero(Df())};
    if constexpr (kFormat.has_min) {
      minimum[0] = minimum[1] = LoadHalves(halves + 2 * quant::kPanelOutputs);
    }
    if constexpr (kFormat.is_k()) {
      const uint8_t* bytes = column.bytes + block * kFormat.scale_stride();
      constexpr int64_t kMinima =
          quant::kSuperblockInputs / kFormat.sub_block * quant::kPanelOutputs;
      for (int h = 0; h < 2; ++h) {
        const int64_t input = g % quant::kGroupsPerSuperblock * quant::kGroupInputs + 16 * h;
        const uint8_t* scale = bytes + input / kFormat.sub_block * quant::kPanelOutputs;
        factor[h] = hn::Mul(factor[h], hn::ConvertTo(Df(), LoadBytes(scale)));
        if constexpr (kFormat.has_min) {
          minimum[h] = hn::Mul(minimum[h], hn::ConvertTo(Df(), LoadBytes(scale + kMinima)));
        }
      }
    }
    DecodeGroup<kType>(column.codes + g * kFormat.group_bytes(), factor, minimum, values);
    values += quant::kGroupInputs * quant::kPanelOutputs;
  }
}

template <DType kType>
void DecodePanel(const PackedMatrixView& w, int64_t panel, int64_t begin, int64_t end,
                 float* values) {
  for (int c = 0; c < kColumnsPerPanel; ++c) {
    DecodeColumn<kType>(w, panel * kColumnsPerPanel + c, begin, end, values + c * kLanes);
  }
}

void WidenPanel(const PackedMatrixView& w, int64_t panel, int64_t begin, int64_t end,
                float* values) {
  const uint8_t* halves = reinterpret_cast<const uint8_t*>(w.data) +
                          static_cast<size_t>(panel) * w.panel_bytes +
                          2 * begin * quant::kPanelOutputs;
  for (int64_t i = 0; i < (end - begin) * quant::kPanelOutputs; i += kLanes) {
    const Vf widened = w.dtype == DType::kF16 ? LoadPlain<DType::kF16>(halves + 2 * i)
                                              : LoadPlain<DType::kBF16>(halves + 2 * i);
    hn::StoreU(widened, Df(), values + i);
  }
}

// Inputs [begin, end) of one panel as float32 [end - begin][16]: `buffer`, or the packed panel
// itself where it holds float32.
const float* DecodedPanel(const PackedMatrixView& w, int64_t panel, int64_t begin, int64_t end,
                          float* buffer) {
  switch (w.dtype) {
    case DType::kF32:
      return reinterpret_cast<const float*>(w.data + static_cast<size_t>(panel) * w.panel_bytes) +
             begin * quant::kPanelOutputs;
    case DType::kF16:
    case DType::kBF16:
      WidenPanel(w, panel, begin, end, buffer);
      break;
    case DType::kQ4_0:
      DecodePanel<DType::kQ4_0>(w, panel, begin, end, buffer);
      break;
    case DType::kQ4_1:
      DecodePanel<DType::kQ4_1>(w, panel, begin, end, buffer);
      break;
    case DType::kQ5_0:
      DecodePanel<DType::kQ5_0>(w, panel, begin, end, buffer);
      break;
    case DType::kQ5_1:
      DecodePanel<DType::kQ5_1>(w, panel, begin, end, buffer);
      break;
    case DType::kQ8_0:
      DecodePanel<DType::kQ8_0>(w, panel, begin, end, buffer);
      break;
    case DType::kIQ4_NL:
      DecodePanel<DType::kIQ4_NL>(w, panel, begin, end, buffer);
      break;
    case DType::kQ2_K:
      DecodePanel<DType::kQ2_K>(w, panel, begin, end, buffer);
      break;
    case DType::kQ3_K:
      DecodePanel<DType::kQ3_K>(w, panel, begin, end, buffer);
      break;
    case DType::kQ4_K:
      DecodePanel<DType::kQ4_K>(w, panel, begin, end, buffer);
      break;
    case DType::kQ5_K:
      DecodePanel<DType::kQ5_K>(w, panel, begin, end, buffer);
      break;
    case DType::kQ6_K:
      DecodePanel<DType::kQ6_K>(w, panel, begin, end, buffer);
      break;
    default:
      OCTAVO_CHECK(false, "a storage format");
  }
  return buffer;
}

// One run's columns that are multiplied together, and the rows to multiply.
struct FloatTile {
  const float* weights[kFloatTileColumns];  // [num_inputs][16], at the column's lanes
  float* out[kFloatTileColumns];            // row 0's first output of the column
  int64_t lanes[kFloatTileColumns];
  int64_t out_stride;
  int64_t num_inputs;  // of the run
  bool first_run;      // the chains start here
};

template <int kRows>
HWY_NOINLINE void FloatRows(const FloatTile& tile, const float* x, int64_t x_stride, int64_t row) {
  constexpr int kColumns = kFloatTileColumns;
  Vf acc[kColumns][kRows];
  const float* weights[kColumns];
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) {
    weights[c] = tile.weights[c];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      acc[c][r] = tile.first_run
                      ? hn::Zero(Df())
                      : LoadLanes(tile.lanes[c], tile.out[c] + (row + r) * tile.out_stride);
    }
  }
  const float* rows = x + row * x_stride;
  for (int64_t k = 0; k < tile.num_inputs; ++k) {
    Vf w[kColumns];
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) {
      w[c] = hn::LoadU(Df(), weights[c] + k * quant::kPanelOutputs);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const Vf xv = hn::Set(Df(), rows[r * x_stride + k]);
#pragma GCC unroll 16
      for (int c = 0; c < kColumns; ++c) acc[c][r] = hn::MulAdd(xv, w[c], acc[c][r]);
    }
  }
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      StoreLanes(acc[c][r], tile.lanes[c], tile.out[c] + (row + r) * tile.out_stride);
    }
  }
}

HWY_INLINE void FloatAllRows(const FloatTile& tile, const float* x, int64_t x_stride,
                             int64_t num_rows) {
  int64_t tiles = (num_rows + kFloatTileRows - 1) / kFloatTileRows;
  for (int64_t row = 0; row < num_rows; --tiles) {
    const int64_t rows = (num_rows - row + tiles - 1) / tiles;
    switch (rows) {
      case 1:
        FloatRows<1>(tile, x, x_stride, row);
        break;
      case 2:
        FloatRows<2>(tile, x, x_stride, row);
        break;
      case 3:
        FloatRows<3>(tile, x, x_stride, row);
        break;
      case 4:
        FloatRows<4>(tile, x, x_stride, row);
        break;
      case 5:
        if constexpr (kFloatTileRows >= 5) FloatRows<5>(tile, x, x_stride, row);
        break;
      case 6:
        if constexpr (kFloatTileRows >= 6) FloatRows<6>(tile, x, x_stride, row);
        break;
      case 7:
        if constexpr (kFloatTileRows >= 7) FloatRows<7>(tile, x, x_stride, row);
        break;
      default:
        if constexpr (kFloatTileRows >= 8) FloatRows<8>(tile, x, x_stride, row);
        break;
    }
    row += rows;
  }
}

void Float32(const PackedMatrixView& w, const float* x, int64_t x_stride, int64_t num_rows,
             PanelRange range, float* out, int64_t out_stride) {
  if (!w.is_quantized() && num_rows <= kMaxPlainRows) {
    return FewPlainRows({w, x, x_stride, range.end * kColumnsPerPanel, out, out_stride},
                        range.begin * kColumnsPerPanel, num_rows);
  }
  DecodedRun run;
  for (int64_t panel = range.begin; panel < range.end; panel += kRunPanels) {
    const int64_t panels = HWY_MIN(int64_t{kRunPanels}, range.end - panel);
    const int64_t num_columns = panels * kColumnsPerPanel;
    for (int64_t begin = 0; begin < w.num_inputs; begin += kRunInputs) {
      const int64_t end = HWY_MIN(begin + kRunInputs, w.num_inputs);
      const float* weights[kRunPanels];
      for (int64_t p = 0; p < panels; ++p) {
        weights[p] = DecodedPanel(w, panel + p, begin, end, run.Panel(p));
      }
      for (int64_t first = 0; first < num_columns; first += kFloatTileColumns) {
        FloatTile tile;
        tile.out_stride = out_stride;
        tile.num_inputs = end - begin;
        tile.first_run = begin == 0;
        for (int c = 0; c < kFloatTileColumns; ++c) {
          // Columns beyond the last repeat it and store nothing.
          const int64_t column = HWY_MIN(first + c, num_columns - 1);
          const int64_t index = panel * kColumnsPerPanel + column;
          tile.weights[c] = weights[column / kColumnsPerPanel] + column % kColumnsPerPanel * kLanes;
          tile.lanes[c] = first + c < num_columns ? LanesOf(w, index) : 0;
          tile.out[c] = out + index * kLanes;
        }
        FloatAllRows(tile, x + begin, x_stride, num_rows);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace octavo::kernels
HWY_AFTER_NAMESPACE();

#endif  // OCTAVO_KERNELS_SIMD_MATMUL_FLOAT_INL_H
