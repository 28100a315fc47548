// Purpose:    A4b's products, one register tile of columns (kLanes outputs) x rows at a time, in
//             the canonical order per element.
// Invariants: a tile's integer sums of one group are exact, so their order is free; the float chain
//             runs over ascending groups. Two ways to multiply 16-bit activations: as words, by a
//             vector of a quad's even inputs (0 and 2) and one of its odd ones (1 and 3); or, with
//             VNNI, codes up to 127 and few rows, as bytes: 256 times the sum of the high bytes and
//             the sum of the low ones, which saves unpacking codes to words.

#if defined(OCTAVO_KERNELS_SIMD_INT16_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTAVO_KERNELS_SIMD_INT16_TILE_INL_H
#undef OCTAVO_KERNELS_SIMD_INT16_TILE_INL_H
#else
#define OCTAVO_KERNELS_SIMD_INT16_TILE_INL_H
#endif

#include <cstdint>

#include "kernels/matmul.h"
#include "kernels/simd/panel-inl.h"
#include "kernels/simd/quad_dot-inl.h"
#include "kernels/simd/target-inl.h"
#include "kernels/simd/tile_columns-inl.h"

HWY_BEFORE_NAMESPACE();
namespace octavo::kernels {
namespace HWY_NAMESPACE {

using D16 = hn::Repartition<int16_t, Di>;
using V16 = hn::Vec<D16>;

// The rows of one tile, from the tile's first row on.
struct TileRows16 {
  const int16_t* codes;
  const uint8_t* bytes;
  const float* scales;
  const float* half_sums;
  int64_t num_inputs;

  HWY_INLINE const int16_t* Codes(int row, int64_t group) const {
    return codes + row * num_inputs + group * quant::kGroupInputs;
  }
  HWY_INLINE const uint8_t* Bytes(int row, int64_t group) const {
    return bytes + 2 * (row * num_inputs + group * quant::kGroupInputs);
  }
  HWY_INLINE const float* HalfSums(int row, int64_t group) const {
    return half_sums + row * (num_inputs / 16) + group * 2;
  }
};

HWY_INLINE TileRows16 TileRows16At(const QuantizedRows16& x, int64_t row) {
  return {x.codes + row * x.num_inputs, x.bytes + 2 * row * x.num_inputs, x.scales + row,
          x.half_sums + row * (x.num_inputs / 16), x.num_inputs};
}

// Whether activations are multiplied as bytes: both sums of each output and row are in registers.
// Expanded codes are words already.
template <DType kType, bool kExpanded, int kColumns, int kRows>
constexpr bool MultipliesBytes() {
  return HWY_TARGET == HWY_AVX3 && LargestOperand<kType>() <= 127 && !kExpanded &&
         kColumns * kRows <= 6;
}

// The words of one quad.
struct QuadWords {
  Vi even;
  Vi odd;
};

// Quad `t` of a group of packed codes.
template <DType kType>
HWY_INLINE QuadWords LoadWords(const uint8_t* codes, int t) {
  constexpr PackedFormat kFormat = quant::PackedFormatOf(kType);
  const D16 d16;
  const hn::RebindToUnsigned<D16> du16;
  if constexpr (kFormat.code_bits == 4 && !kFormat.has_table) {
    const auto packed = hn::BitCast(du16, hn::LoadU(D8(), codes + (t & 3) * quant::kQuadBytes));
    const auto low_bits = hn::Set(du16, uint16_t{15});
    auto even = t < 4 ? packed : hn::ShiftRight<4>(packed);
    auto odd = hn::ShiftRight<8>(packed);
    odd = t < 4 ? hn::And(odd, low_bits) : hn::ShiftRight<4>(odd);
    even = hn::And(even, low_bits);
    if constexpr (kFormat.code_offset != 0) {
      const auto offset = hn::Set(du16, static_cast<uint16_t>(kFormat.code_offset));
      even = hn::Sub(even, offset);
      odd = hn::Sub(odd, offset);
    }
    return {hn::BitCast(Di(), even), hn::BitCast(Di(), odd)};
  }
  const V16 q = hn::BitCast(d16, LoadCodes<kType, false>(codes, t));
  if constexpr (kFormat.code_offset == 0 && !kFormat.has_table) {  // not negative
    return {hn::BitCast(Di(), hn::And(q, hn::Set(d16, int16_t{0xff}))),
            hn::BitCast(Di(), hn::ShiftRight<8>(q))};
  }
  return {hn::BitCast(Di(), hn::ShiftRight<8>(hn::ShiftLeft<8>(q))),
          hn::BitCast(Di(), hn::ShiftRight<8>(q))};
}

// Bytes of one quad of an expanded group.
inline constexpr int64_t kExpandedQuadBytes = 2 * kLanes * 4;

template <DType kType, bool kExpanded>
HWY_INLINE QuadWords LoadQuadWords(const uint8_t* codes, int t) {
  if constexpr (!kExpanded) return LoadWords<kType>(codes, t);
  const auto* words = reinterpret_cast<const int32_t*>(codes + t * kExpandedQuadBytes);
  return {hn::LoadU(Di(), words), hn::LoadU(Di(), words + kLanes)};
}

#if HWY_TARGET == HWY_AVX3

// -BiasOf() times the sum of the activations of the halves that the quads cover.
template <DType kType, int kFirst, int kCount>
HWY_INLINE Vi BiasTerm16(const TileRows16& x, int r, int64_t g) {
  const float* halves = x.HalfSums(r, g);
  const float low = kFirst == 0 ? halves[0] : 0.0f;
  const float high = kFirst + kCount == 8 ? halves[1] : 0.0f;
  return hn::Set(Di(), -BiasOf<kType>() * static_cast<int32_t>(low + high));
}

// sums[c][r] = the exact sum of q * a over quads [kFirst, kFirst + kCount) of group g.
template <DType kType, int kFirst, int kCount, int kColumns, int kRows>
HWY_INLINE void SumBytes16(const uint8_t* const (&codes)[kColumns], const TileRows16& x, int64_t g,
                           Vi (&sums)[kColumns][kRows]) {
  using Dot = QuadDot<LargestOperand<kType>()>;
  Vi lows[kColumns][kRows];
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) sums[c][r] = lows[c][r] = hn::Zero(Di());
  }
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) {
    const int t = kCount == 8 ? QuadOfStep<kType>(i) : kFirst + i;
    V8 w[kColumns];
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) w[c] = LoadCodes<kType, true>(codes[c], t);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const Vi high = BroadcastWord(x.Bytes(r, g) + 8 * t);
      const V8 low = hn::BitCast(D8(), BroadcastWord(x.Bytes(r, g) + 8 * t + 4));
#pragma GCC unroll 16
      for (int c = 0; c < kColumns; ++c) {
        sums[c][r] = Dot::Add(sums[c][r], w[c], high);
        lows[c][r] = Dot::Add(lows[c][r], low, hn::BitCast(Di(), w[c]));
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) {
      if constexpr (BiasOf<kType>() != 0) {
        lows[c][r] = hn::Add(lows[c][r], BiasTerm16<kType, kFirst, kCount>(x, r, g));
      }
      sums[c][r] = hn::Add(hn::ShiftLeft<8>(sums[c][r]), lows[c][r]);
    }
  }
}

#endif

// The same with words.
template <DType kType, bool kExpanded, int kFirst, int kCount, int kColumns, int kRows>
HWY_INLINE void SumWords16(const uint8_t* const (&codes)[kColumns], const TileRows16& x, int64_t g,
                           Vi (&sums)[kColumns][kRows]) {
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) sums[c][r] = hn::Zero(Di());
  }
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) {
    const int t = kCount == 8 ? QuadOfStep<kType>(i) : kFirst + i;
    QuadWords w[kColumns];
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) w[c] = LoadQuadWords<kType, kExpanded>(codes[c], t);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const Vi even = BroadcastWord(x.Codes(r, g) + 4 * t);
      const Vi odd = BroadcastWord(x.Codes(r, g) + 4 * t + 2);
#pragma GCC unroll 16
      for (int c = 0; c < kColumns; ++c) {
        sums[c][r] = AddPairDot(AddPairDot(sums[c][r], w[c].even, even), w[c].odd, odd);
      }
    }
  }
}

template <DType kType, bool kExpanded, int kFirst, int kCount, int kColumns, int kRows>
HWY_INLINE void SumQuads16(const uint8_t* const (&codes)[kColumns], const TileRows16& x, int64_t g,
                           Vi (&sums)[kColumns][kRows]) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (MultipliesBytes<kType, kExpanded, kColumns, kRows>()) {
    return SumBytes16<kType, kFirst, kCount>(codes, x, g, sums);
  }
#endif
  SumWords16<kType, kExpanded, kFirst, kCount>(codes, x, g, sums);
}

// A4b's term of the codes, before it is scaled by d.
template <DType kType, bool kExpanded, int kColumns, int kRows>
HWY_INLINE void SumGroup16(const uint8_t* const (&codes)[kColumns], const TileRows16& x, int64_t g,
                           const GroupScales (&scales)[kColumns], Vf (&result)[kColumns][kRows]) {
  constexpr int kSubBlock = quant::PackedFormatOf(kType).sub_block;
  constexpr int kFirstCount = kSubBlock == 16 ? 4 : 8;
  Vi sums[kColumns][kRows];
  SumQuads16<kType, kExpanded, 0, kFirstCount>(codes, x, g, sums);
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      result[c][r] = hn::ConvertTo(Df(), sums[c][r]);
      if constexpr (kSubBlock != 0) result[c][r] = hn::Mul(result[c][r], scales[c].scale[0]);
    }
  }
  if constexpr (kSubBlock == 16) {
    SumQuads16<kType, kExpanded, 4, 4>(codes, x, g, sums);
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

// A4b's term of the minimum for row r, before it is scaled by m or dmin.
template <DType kType>
HWY_INLINE Vf SumOfMinima16(const TileRows16& x, int r, int64_t g, const GroupScales& scales) {
  constexpr PackedFormat kFormat = quant::PackedFormatOf(kType);
  const float* halves = x.HalfSums(r, g);
  if constexpr (kFormat.sub_block != 16) {
    const Vf sum = hn::Set(Df(), halves[0] + halves[1]);
    return kFormat.is_k() ? hn::Mul(sum, hn::ConvertTo(Df(), scales.minima[0])) : sum;
  }
  const Vf low = hn::Mul(hn::Set(Df(), halves[0]), hn::ConvertTo(Df(), scales.minima[0]));
  return hn::MulAdd(hn::Set(Df(), halves[1]), hn::ConvertTo(Df(), scales.minima[1]), low);
}

// Bytes from one group's codes to the next: packed for all columns of the panel, or expanded for
// one.
template <DType kType, bool kExpanded>
constexpr int64_t GroupBytes16() {
  return kExpanded ? 8 * kExpandedQuadBytes : quant::PackedFormatOf(kType).group_bytes();
}

// Adds group g to the chains. The columns' codes begin at group_begin.
template <DType kType, bool kExpanded, int kColumns, int kRows>
HWY_INLINE void AddGroup16(const TileColumnsOf<kColumns>& w, const TileRows16& x, int64_t g,
                           Vf (&acc)[kColumns][kRows]) {
  constexpr PackedFormat kFormat = quant::PackedFormatOf(kType);
  GroupScales scales[kColumns];
  const uint8_t* codes[kColumns];
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) {
    scales[c] = LoadScales<kType>(w.columns[c], g);
    codes[c] = w.columns[c].codes + (g - w.group_begin) * GroupBytes16<kType, kExpanded>();
  }
  Vf sums[kColumns][kRows];
  SumGroup16<kType, kExpanded>(codes, x, g, scales, sums);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) {
      acc[c][r] = hn::MulAdd(sums[c][r], scales[c].d, acc[c][r]);
      if constexpr (kFormat.has_min) {
        const Vf minima = SumOfMinima16<kType>(x, r, g, scales[c]);
        acc[c][r] = kFormat.is_k() ? hn::NegMulAdd(minima, scales[c].minimum, acc[c][r])
                                   : hn::MulAdd(minima, scales[c].minimum, acc[c][r]);
      }
    }
  }
}

template <DType kType, bool kExpanded, int kColumns, int kRows>
HWY_NOINLINE void Int16Tile(const TileColumnsOf<kColumns>& tile, const TileRows16& tile_rows,
                            int64_t out_stride) {
  const TileColumnsOf<kColumns> w = tile;  // copies, which no store can alias
  const TileRows16 x = tile_rows;
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
    AddGroup16<kType, kExpanded>(w, x, g, acc);
  }
  const bool is_last = w.group_end * quant::kGroupInputs == x.num_inputs;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const Vf scale = hn::Set(Df(), is_last ? x.scales[r] : 1.0f);
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) {
      StoreLanes(hn::Mul(acc[c][r], scale), w.lanes[c], w.out[c] + r * out_stride);
    }
  }
}

// A4b as matmul_quantized-inl.h multiplies it.
template <DType kType>
struct Int16Tiles {
  static constexpr DType kDtype = kType;
  using Input = QuantizedRows16;
  // 16 groups (512 inputs) of two panels (AVX-512) or one are 16 to 32 KiB.
  static constexpr bool kExpands = true;
  static constexpr int64_t kExpandedGroups = 16;
  static constexpr int64_t kExpandedGroupBytes = 8 * kExpandedQuadBytes;

  // One group of one column.
  static HWY_INLINE void Expand(const uint8_t* codes, uint8_t* target) {
#pragma GCC unroll 8
    for (int t = 0; t < 8; ++t) {
      const QuadWords w = LoadWords<kType>(codes, t);
      auto* words = reinterpret_cast<int32_t*>(target + t * kExpandedQuadBytes);
      hn::Store(w.even, Di(), words);
      hn::Store(w.odd, Di(), words + kLanes);
    }
  }

  template <bool kExpanded, int kColumns, int kRows>
  static HWY_INLINE void Multiply(const TileColumnsOf<kColumns>& tile, const Input& x, int64_t row,
                                  int64_t out_stride) {
    Int16Tile<kType, kExpanded, kColumns, kRows>(tile, TileRows16At(x, row), out_stride);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace octavo::kernels
HWY_AFTER_NAMESPACE();

#endif  // OCTAVO_KERNELS_SIMD_INT16_TILE_INL_H
