// The inner loops of attention over one tile of INT8 K and V: exact integer products in batches of
// pairs, as attention_tile-inl.h forms them in float32. Masked positions need no care there: their
// weights' codes are 0.

// clang-format off
#if defined(OCTAVO_KERNELS_SIMD_ATTENTION_INT8_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTAVO_KERNELS_SIMD_ATTENTION_INT8_TILE_INL_H
#undef OCTAVO_KERNELS_SIMD_ATTENTION_INT8_TILE_INL_H
#else
#define OCTAVO_KERNELS_SIMD_ATTENTION_INT8_TILE_INL_H
#endif
// clang-format on

#include "kernels/simd/attention_int8_dot-inl.h"
#include "kernels/simd/attention_pass-inl.h"
#include "kernels/simd/rounding-inl.h"

HWY_BEFORE_NAMESPACE();
namespace octavo::kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kQuad = 4;  // codes in a 32-bit lane
// Bytes from a pair's query codes to the next: as kQueryStride, for bytes.
constexpr int kCodeStride = 256 + 64;
// As kAccumulators. AVX2's products take registers of their own, and their chains are short.
constexpr int kIntAccumulators = HWY_TARGET == HWY_AVX2 ? 6 : 12;
constexpr float kSmallestMax = 0x1p-100f;  // maxima below it count as 0

// One tile of K and V of one kv head.
struct Int8Tile {
  const int8_t* k[kHalves];                 // [head_dim / 4][16][4]
  const int8_t* v[kHalves];                 // [4][head_dim][4]
  const hwy::float16_t* k_scales[kHalves];  // [16]
  const hwy::float16_t* v_scales[kHalves];  // [16]
};

// Into L2. K and V are prefetched at two places, between which there is work that reads no memory:
// the processor has room for about one of them on its way.
HWY_INLINE void PrefetchHalves(const int8_t* const (&halves)[kHalves], int64_t head_dim) {
  for (int64_t byte = 0; byte < head_dim * kLanes; byte += 64) {
    for (const int8_t* half : halves) PrefetchLine(half, byte);
  }
}

// The queries of a pass as codes, and what belongs to each pair.
struct Int8Queries {
  int8_t* codes;    // [pairs][kCodeStride]
  int32_t* starts;  // [pairs]: where the sums of products start
};

// The softmax weights of a tile as codes.
struct Int8Weights {
  uint8_t* codes;  // [pairs][32]
  float* steps;    // [pairs]
};

template <class D>
HWY_INLINE hn::Vec<D> LoadWords(D d, const int8_t* from) {
  return hn::BitCast(d, hn::LoadU(hn::Repartition<int8_t, D>(), from));
}

template <class D, typename Code>
HWY_INLINE hn::Vec<D> BroadcastQuad(D d, const Code* from) {
  int32_t word;
  std::memcpy(&word, from, sizeof word);
  return hn::Set(d, word);
}

// The most vectors, a power of two up to `limit`, whose sums for a batch stay in registers.
template <int kBatch>
constexpr int VectorsAtOnce(int limit) {
  int vectors = limit;
  while (vectors > 1 && kBatch * vectors > kIntAccumulators) vectors /= 2;
  return vectors;
}

// scores[pair][32] = float(I) * sk of A8b.
template <int kBatch>
HWY_NOINLINE void ScoreInt8Tile(const Int8Tile& tile, int64_t head_dim, const Int8Queries& queries,
                                float* HWY_RESTRICT scores) {
  using D = hn::RebindToSigned<FloatTag>;
  constexpr D d;
  constexpr int kVectors = VectorsAtOnce<kBatch>(kHalves * kParts);
  for (int part = 0; part < kHalves * kParts; part += kVectors) {
    hn::Vec<D> sums[kBatch][kVectors];
#pragma GCC unroll 16
    for (int pair = 0; pair < kBatch; ++pair) {
#pragma GCC unroll 16
      for (int i = 0; i < kVectors; ++i) sums[pair][i] = hn::Set(d, queries.starts[pair]);
    }
    // The parts of one half lie beside each other; more of them at once begin at part 0.
    const int8_t* HWY_RESTRICT k0 = tile.k[part / kParts] + part % kParts * kWidth * kQuad;
    const int8_t* HWY_RESTRICT k1 = tile.k[kHalves - 1];
#pragma GCC unroll 2
    for (int64_t e = 0; e < head_dim; e += kQuad) {
      // Few keys are kept in registers and each query is read when it is used, or g++ spills.
      Key<hn::Vec<D>> keys[kVectors];
#pragma GCC unroll 16
      for (int i = 0; i < kVectors; ++i) {
        keys[i] = MakeKey(LoadWords(d, (i < kParts ? k0 : k1) + i % kParts * kWidth * kQuad));
      }
      const int8_t* HWY_RESTRICT query = queries.codes + e;
#pragma GCC unroll 16
      for (int pair = 0; pair < kBatch; ++pair) {
        const auto quad = BroadcastQuad(d, query + pair * kCodeStride);
#pragma GCC unroll 16
        for (int i = 0; i < kVectors; ++i) sums[pair][i] = KeyDot(sums[pair][i], keys[i], quad);
      }
      k0 += kLanes * kQuad;
      k1 += kLanes * kQuad;
    }
#pragma GCC unroll 16
    for (int i = 0; i < kVectors; ++i) {
      const int at = part + i;
      const FloatVector scale =
          LoadAsFloat(kFloat, tile.k_scales[at / kParts] + at % kParts * kWidth);
#pragma GCC unroll 16
      for (int pair = 0; pair < kBatch; ++pair) {
        hn::Store(hn::Mul(hn::ConvertTo(kFloat, sums[pair][i]), scale), kFloat,
                  scores + pair * kTile + at * kWidth);
      }
    }
  }
}

// weights[pair][32] *= V's scales; their codes and steps.
HWY_NOINLINE void QuantizeWeights(const Int8Tile& tile, const int* num_visible, int num_pairs,
                                  float* HWY_RESTRICT weights, const Int8Weights& result) {
  constexpr int kVectors = kHalves * kParts;
  const hn::RebindToUnsigned<FloatTag> du;
  FloatVector scales[kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kVectors; ++i) {
    scales[i] = LoadAsFloat(kFloat, tile.v_scales[i / kParts] + i % kParts * kWidth);
  }
  HWY_ALIGN float inverses[kPassPairs];
  for (int pair = 0; pair < num_pairs; ++pair) {
    float* HWY_RESTRICT row = weights + pair * kTile;
    // As integers: weights are not negative, and a NaN of either sign is above all of them.
    auto max_bits = hn::Zero(du);
#pragma GCC unroll 16
    for (int i = 0; i < kVectors; ++i) {
      FloatVector scaled = hn::Mul(hn::Load(kFloat, row + i * kWidth), scales[i]);
      if (num_visible[pair] < (i + 1) * kWidth) {
        const int visible = HWY_MAX(num_visible[pair] - i * kWidth, 0);
        scaled = hn::IfThenElseZero(hn::FirstN(kFloat, static_cast<size_t>(visible)), scaled);
      }
      hn::Store(scaled, kFloat, row + i * kWidth);
      max_bits = hn::Max(max_bits, hn::BitCast(du, scaled));
    }
    result.steps[pair] = hn::GetLane(hn::BitCast(kFloat, hn::MaxOfLanes(du, max_bits)));
  }
  for (int pair = 0; pair < num_pairs; pair += kWidth) {
    const FloatVector max = hn::Load(kFloat, result.steps + pair);
    const auto is_tiny = hn::Lt(max, hn::Set(kFloat, kSmallestMax));
    const FloatVector limit = hn::Set(kFloat, 127.0f);
    hn::Store(hn::IfThenZeroElse(is_tiny, hn::Div(limit, max)), kFloat, inverses + pair);
    hn::Store(hn::IfThenZeroElse(is_tiny, hn::Div(max, limit)), kFloat, result.steps + pair);
  }
  for (int pair = 0; pair < num_pairs; ++pair) {
    const FloatVector inverse = hn::Set(kFloat, inverses[pair]);
#pragma GCC unroll 16
    for (int i = 0; i < kVectors; ++i) {
      const FloatVector scaled = hn::Load(kFloat, weights + pair * kTile + i * kWidth);
      const auto codes = RoundToInteger(hn::Mul(scaled, inverse));
      const hn::Rebind<uint8_t, FloatTag> du8;
      hn::StoreU(hn::DemoteTo(du8, codes), du8, result.codes + pair * kTile + i * kWidth);
    }
  }
}

// What ValueTile takes of each pair of a batch.
struct Int8Batch {
  const uint8_t* HWY_RESTRICT codes;      // [kBatch][32]
  const float* HWY_RESTRICT steps;        // [kBatch]
  const float* HWY_RESTRICT corrections;  // [kBatch]
};

// acc[pair][column ..] = S * step + acc * correction for kVectors vectors of columns; `acc_out` of
// a pair lies PartialFloats(head_dim) after the one before.
template <int kBatch, int kVectors, class DF>
HWY_INLINE void ValueInt8Columns(DF df, const Int8Tile& tile, int64_t head_dim, int64_t column,
                                 const Int8Batch& batch, float* HWY_RESTRICT acc_out) {
  const hn::RebindToSigned<DF> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int kVectorWidth = static_cast<int>(hn::MaxLanes(DF()));
  const int64_t row_bytes = head_dim * kQuad;
  V sums[kBatch][kVectors];
#pragma GCC unroll 16
  for (int pair = 0; pair < kBatch; ++pair) {
#pragma GCC unroll 16
    for (int i = 0; i < kVectors; ++i) sums[pair][i] = hn::Zero(d);
  }
  for (int half = 0; half < kHalves; ++half) {
    const int8_t* HWY_RESTRICT values = tile.v[half] + column * kQuad;
#pragma GCC unroll 4
    for (int quad = 0; quad < kLanes / kQuad; ++quad) {
      const uint8_t* HWY_RESTRICT codes = batch.codes + half * kLanes + quad * kQuad;
      V vectors[kVectors];
#pragma GCC unroll 16
      for (int i = 0; i < kVectors; ++i) {
        vectors[i] = LoadWords(d, values + i * kVectorWidth * kQuad);
      }
#pragma GCC unroll 16
      for (int pair = 0; pair < kBatch; ++pair) {
        const V weights = BroadcastQuad(d, codes + pair * kTile);
#pragma GCC unroll 16
        for (int i = 0; i < kVectors; ++i) {
          sums[pair][i] = WeightDot(sums[pair][i], weights, vectors[i]);
        }
      }
      values += row_bytes;
    }
  }
#pragma GCC unroll 16
  for (int pair = 0; pair < kBatch; ++pair) {
    const auto step = hn::Set(df, batch.steps[pair]);
    const auto correction = hn::Set(df, batch.corrections[pair]);
    float* HWY_RESTRICT acc = acc_out + pair * PartialFloats(head_dim) + column;
#pragma GCC unroll 16
    for (int i = 0; i < kVectors; ++i) {
      const auto old = hn::Mul(hn::LoadU(df, acc + i * kVectorWidth), correction);
      const auto sum = hn::MulAdd(hn::ConvertTo(df, sums[pair][i]), step, old);
      hn::StoreU(sum, df, acc + i * kVectorWidth);
    }
  }
}

// ValueInt8Columns over all head_dim columns.
template <int kBatch>
HWY_NOINLINE void ValueInt8Tile(const Int8Tile& tile, int64_t head_dim, const Int8Batch& batch,
                                float* HWY_RESTRICT acc) {
  constexpr int kVectors = VectorsAtOnce<kBatch>(4);
  int64_t column = 0;
  for (; column + kVectors * kWidth <= head_dim; column += kVectors * kWidth) {
    ValueInt8Columns<kBatch, kVectors>(kFloat, tile, head_dim, column, batch, acc);
  }
  for (; kVectors > 2 && column + 2 * kWidth <= head_dim; column += 2 * kWidth) {
    ValueInt8Columns<kBatch, 2>(kFloat, tile, head_dim, column, batch, acc);
  }
  for (; column + kWidth <= head_dim; column += kWidth) {
    ValueInt8Columns<kBatch, 1>(kFloat, tile, head_dim, column, batch, acc);
  }
  if constexpr (kWidth > 8) {  // head_dim is a multiple of 8
    if (column < head_dim) {
      ValueInt8Columns<kBatch, 1>(HWY_CAPPED(float, 8)(), tile, head_dim, column, batch, acc);
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace octavo::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
