// Purpose:    A4's products, one register tile of columns (kLanes outputs) x rows at a time, in the
//             canonical order per element.
// Invariants: a tile's integer sums of one group are exact, so their order is free; the float chain
//             runs over ascending groups.

#if defined(OCTAVO_KERNELS_SIMD_INT8_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTAVO_KERNELS_SIMD_INT8_TILE_INL_H
#undef OCTAVO_KERNELS_SIMD_INT8_TILE_INL_H
#else
#define OCTAVO_KERNELS_SIMD_INT8_TILE_INL_H
#endif

#include <cstdint>
#include <type_traits>

#include "kernels/matmul.h"
#include "kernels/simd/panel-inl.h"
#include "kernels/simd/target-inl.h"
#include "kernels/simd/tile_columns-inl.h"

HWY_BEFORE_NAMESPACE();
namespace octavo::kernels {
namespace HWY_NAMESPACE {

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

// Expanded int8 codes of one column: per group 8 vectors of the operand.
inline constexpr int64_t kExpandedInt8Bytes = 8 * kLanes * 4;

template <DType kType>
using DotOf = QuadDot<LargestOperand<kType>()>;

// Bytes from one group's codes to the next: packed for all columns of the panel, or expanded for
// one.
template <DType kType, bool kExpanded>
constexpr int64_t GroupBytes() {
  if (kExpanded) return kExpandedInt8Bytes;
  return quant::PackedFormatOf(kType).group_bytes();
}

// Quad `t` of a group as the operand of DotOf<kType>: expanded codes are stored so.
template <DType kType, bool kExpanded>
HWY_INLINE V8 LoadOperand(const uint8_t* codes, int t) {
  if constexpr (kExpanded) return hn::LoadU(D8(), codes + t * kLanes * 4);
  return LoadCodes<kType, DotOf<kType>::kUnsigned>(codes, t);
}

// sums[c][r] = the exact sum of q * a over quads [kFirst, kFirst + kCount) of group g.
template <DType kType, bool kExpanded, int kFirst, int kCount, int kColumns, int kRows>
HWY_INLINE void SumQuads(const uint8_t* const (&codes)[kColumns], const TileRows& x, int64_t g,
                         Vi (&sums)[kColumns][kRows]) {
  using Dot = DotOf<kType>;
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
    const int t = kCount == 8 ? QuadOfStep<kType>(i) : kFirst + i;
    V8 w[kColumns];
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) w[c] = LoadOperand<kType, kExpanded>(codes[c], t);
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

// The integer I of A4 as float32. For K-formats it is computed in float32, where it is exact: |sc *
// isum| summed over both halves stays below 2 * 128 * 16 * 32 * 127 < 2^24.
template <DType kType, bool kExpanded, int kColumns, int kRows>
HWY_INLINE void SumGroup(const uint8_t* const (&codes)[kColumns], const TileRows& x, int64_t g,
                         const GroupScales (&scales)[kColumns], Vf (&result)[kColumns][kRows]) {
  constexpr int kSubBlock = quant::PackedFormatOf(kType).sub_block;
  constexpr int kFirstCount = kSubBlock == 16 ? 4 : 8;
  Vi sums[kColumns][kRows];
  SumQuads<kType, kExpanded, 0, kFirstCount>(codes, x, g, sums);
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      result[c][r] = hn::ConvertTo(Df(), sums[c][r]);
      if constexpr (kSubBlock != 0) result[c][r] = hn::Mul(result[c][r], scales[c].scale[0]);
    }
  }
  if constexpr (kSubBlock == 16) {
    SumQuads<kType, kExpanded, 4, 4>(codes, x, g, sums);
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

// The minima of a group's halves as 16-bit pairs. They are not negative.
template <DType kType>
HWY_INLINE Vi MinimaPair(const GroupScales& scales) {
  constexpr int kHigh = quant::PackedFormatOf(kType).sub_block == 16 ? 1 : 0;
  return hn::Or(scales.minima[0], hn::ShiftLeft<16>(scales.minima[kHigh]));
}

// Adds group g to the chains. The columns' codes begin at group_begin.
template <DType kType, bool kExpanded, int kColumns, int kRows>
HWY_INLINE void AddGroup(const TileColumnsOf<kColumns>& w, const TileRows& x, int64_t g,
                         Vf (&acc)[kColumns][kRows]) {
  constexpr PackedFormat kFormat = quant::PackedFormatOf(kType);
  GroupScales scales[kColumns];
  const uint8_t* codes[kColumns];
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) {
    scales[c] = LoadScales<kType>(w.columns[c], g);
    codes[c] = w.columns[c].codes + (g - w.group_begin) * GroupBytes<kType, kExpanded>();
  }
  Vf sums[kColumns][kRows];
  SumGroup<kType, kExpanded>(codes, x, g, scales, sums);
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
        const Vi minima = PairDot(BroadcastWord(x.HalfSums(r, g)), MinimaPair<kType>(scales[c]));
        acc[c][r] =
            hn::NegMulAdd(hn::ConvertTo(Df(), minima), hn::Mul(scales[c].minimum, da), acc[c][r]);
      }
    }
  }
}

template <DType kType, bool kExpanded, int kColumns, int kRows>
HWY_NOINLINE void Int8Tile(const TileColumnsOf<kColumns>& tile, const TileRows& tile_rows,
                           int64_t out_stride) {
  const TileColumnsOf<kColumns> w = tile;  // copies, which no store can alias
  const TileRows x = tile_rows;
  Vf acc[kColumns][kRows];
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      acc[c][r] =
          w.group_begin == 0 ? hn::Zero(Df()) : LoadLanes(w.lanes[c], w.out[c] + r * out_stride);
    }
  }
  PrefetchShare prefetch = w.prefetch;
  for (int64_t g = w.group_begin; g < w.group_end; ++g) {
    if constexpr (!kExpanded) PrefetchAhead<kType, kRows>(w, g, &prefetch);
    AddGroup<kType, kExpanded>(w, x, g, acc);
  }
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      StoreLanes(acc[c][r], w.lanes[c], w.out[c] + r * out_stride);
    }
  }
}

// A4 as matmul_quantized-inl.h multiplies it.
template <DType kType>
struct Int8Tiles {
  static constexpr DType kDtype = kType;
  using Input = QuantizedRows;
  // For many rows codes of fewer than 8 bits are unpacked first. 64 groups (2,048 inputs) of two
  // panels (AVX-512) or one are 32 to 64 KiB.
  static constexpr bool kExpands = quant::PackedFormatOf(kType).code_bits < 8;
  static constexpr int64_t kExpandedGroups = 64;
  static constexpr int64_t kExpandedGroupBytes = kExpandedInt8Bytes;

  // One group of one column.
  static HWY_INLINE void Expand(const uint8_t* codes, uint8_t* target) {
#pragma GCC unroll 8
    for (int t = 0; t < 8; ++t) {
      const V8 operand = LoadCodes<kType, DotOf<kType>::kUnsigned>(codes, t);
      hn::Store(operand, D8(), target + t * kLanes * 4);
    }
  }

  template <bool kExpanded, int kColumns, int kRows>
  static HWY_INLINE void Multiply(const TileColumnsOf<kColumns>& tile, const Input& x, int64_t row,
                                  int64_t out_stride) {
    Int8Tile<kType, kExpanded, kColumns, kRows>(tile, TileRowsAt(x, row), out_stride);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace octavo::kernels
HWY_AFTER_NAMESPACE();

#endif  // OCTAVO_KERNELS_SIMD_INT8_TILE_INL_H
