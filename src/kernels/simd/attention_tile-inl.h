// The inner loops of attention over one tile of 32 positions: scores, online softmax, weighted
// values. A *pair* is one (row, head); pairs are worked on in batches, so that each vector of K or
// V that is loaded serves the whole batch from registers.

#include "kernels/arithmetic_version.h"
#include "kernels/attention.h"

// clang-format off
#if defined(OCTAVO_KERNELS_SIMD_ATTENTION_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTAVO_KERNELS_SIMD_ATTENTION_TILE_INL_H
#undef OCTAVO_KERNELS_SIMD_ATTENTION_TILE_INL_H
#else
#define OCTAVO_KERNELS_SIMD_ATTENTION_TILE_INL_H
#endif
// clang-format on

#include "kernels/simd/canonical_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace octavo::kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr FloatTag kFloat;
constexpr int kTile = kAttentionTileTokens;
constexpr int kHalves = kTile / kLanes;  // a tile is two halves of 16 positions

// Accumulators that a batch may keep in registers: AVX2 has 16 vector registers, the others 32.
constexpr int kAccumulators = HWY_TARGET == HWY_AVX2 ? 12 : 24;
// The most pairs in a batch: two vectors of accumulators for each.
constexpr int kMaxBatch = kAccumulators / 2;

// Floats from a packed query to the next: a constant, so that a batch needs one address; not a
// power of two, so that the queries of a batch do not share cache sets.
constexpr int kQueryStride = kAttentionQueryStride;

// One tile of K and V of one kv head, as `Element`s.
template <class Element>
struct TileView {
  const Element* k[kHalves];  // [head_dim][16]
  const Element* v[kHalves];  // [16][head_dim]
};

// What the inner loops read of one step: a tile, and the one to prefetch if not null.
template <class Element>
struct TileInput {
  TileView<Element> tile;
  const TileView<Element>* next;
  int64_t head_dim;
};

// float32 from float32, FP16 or BF16.
template <class D>
HWY_INLINE hn::Vec<D> LoadAsFloat(D d, const float* from) {
  return hn::LoadU(d, from);
}
template <class D, class Element>
HWY_INLINE hn::Vec<D> LoadAsFloat(D d, const Element* from) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<Element, D>(), from));
}

// Into L2 (measured with one row of FP16 on Zen 4: 31 GB/s, into L1 24).
HWY_INLINE void PrefetchLine(const void* base, int64_t byte_offset) {
  __builtin_prefetch(static_cast<const char*>(base) + byte_offset, 0, 2);
}

// acc[pair][i] += multipliers[pair * kStride] * load(i). The smaller of the two sides is kept in
// registers, or g++ spills accumulators.
template <int kBatch, int kVectors, int kStride, class D, class Load>
HWY_INLINE void RankOneUpdate(D d, const float* HWY_RESTRICT multipliers, const Load& load,
                              hn::Vec<D> (&acc)[kBatch][kVectors]) {
  if constexpr (kVectors <= kBatch) {
    hn::Vec<D> vectors[kVectors];
#pragma GCC unroll 16
    for (int i = 0; i < kVectors; ++i) vectors[i] = load(i);
#pragma GCC unroll 16
    for (int pair = 0; pair < kBatch; ++pair) {
      const hn::Vec<D> multiplier = hn::Set(d, multipliers[pair * kStride]);
#pragma GCC unroll 16
      for (int i = 0; i < kVectors; ++i) {
        acc[pair][i] = hn::MulAdd(multiplier, vectors[i], acc[pair][i]);
      }
    }
  } else {
    hn::Vec<D> pairs[kBatch];
#pragma GCC unroll 16
    for (int pair = 0; pair < kBatch; ++pair) {
      pairs[pair] = hn::Set(d, multipliers[pair * kStride]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kVectors; ++i) {
      const hn::Vec<D> vector = load(i);
#pragma GCC unroll 16
      for (int pair = 0; pair < kBatch; ++pair) {
        acc[pair][i] = hn::MulAdd(pairs[pair], vector, acc[pair][i]);
      }
    }
  }
}

// scores[pair][32] = the unscaled products of q [kBatch][kQueryStride] with the tile's keys. Each
// score is one chain over d in its own lane.
template <int kBatch, class Element>
HWY_NOINLINE void ScoreTile(const TileInput<Element>& input, const float* HWY_RESTRICT q,
                            float* HWY_RESTRICT scores) {
  const TileView<Element>& tile = input.tile;
  const TileView<Element>* const next = input.next;
  const int64_t head_dim = input.head_dim;
  constexpr int kHalvesAtOnce = kBatch * kHalves * kParts <= kAccumulators ? kHalves : 1;
  constexpr int kVectors = kHalvesAtOnce * kParts;
  constexpr int kBytesPerDimension = kLanes * static_cast<int>(sizeof(Element));
  for (int half = 0; half < kHalves; half += kHalvesAtOnce) {
    FloatVector acc[kBatch][kVectors];
#pragma GCC unroll 16
    for (int pair = 0; pair < kBatch; ++pair) {
#pragma GCC unroll 16
      for (int i = 0; i < kVectors; ++i) acc[pair][i] = hn::Zero(kFloat);
    }
    const Element* HWY_RESTRICT k0 = tile.k[half];
    const Element* HWY_RESTRICT k1 = tile.k[kHalves - 1];
    for (int64_t d = 0; d < head_dim; ++d) {
      if (next != nullptr && half == 0 && d * kBytesPerDimension % 64 == 0) {
        PrefetchLine(next->k[0], d * kBytesPerDimension);
        PrefetchLine(next->k[1], d * kBytesPerDimension);
      }
      RankOneUpdate<kBatch, kVectors, kQueryStride>(
          kFloat, q + d,
          [k0, k1](int i) {
            return LoadAsFloat(kFloat, (i < kParts ? k0 : k1) + (i % kParts) * kWidth);
          },
          acc);
      k0 += kLanes;
      k1 += kLanes;
    }
#pragma GCC unroll 16
    for (int pair = 0; pair < kBatch; ++pair) {
#pragma GCC unroll 16
      for (int i = 0; i < kVectors; ++i) {
        hn::Store(acc[pair][i], kFloat, scores + pair * kTile + half * kLanes + i * kWidth);
      }
    }
  }
}

// The positions of a tile that ValueTile multiplies in.
struct TileRange {
  int begin;
  int end;
};

// acc[pair][column ..] = acc * correction + the weighted rows of V in `range`, one chain over the
// positions in each lane, for kVectors vectors of columns. `acc` of a pair lies
// PartialFloats(head_dim) after the one before.
template <int kBatch, int kVectors, class D, class Element>
HWY_INLINE void ValueColumns(D d, const TileInput<Element>& input, TileRange range,
                             const float* HWY_RESTRICT weights,
                             const float* HWY_RESTRICT corrections, float* HWY_RESTRICT acc_out) {
  const TileView<Element>& tile = input.tile;
  const TileView<Element>* const next = input.next;
  const int64_t head_dim = input.head_dim;
  constexpr int kVectorWidth = static_cast<int>(hn::MaxLanes(D()));
  const int64_t stride = PartialFloats(head_dim);
  hn::Vec<D> acc[kBatch][kVectors];
#pragma GCC unroll 16
  for (int pair = 0; pair < kBatch; ++pair) {
    const hn::Vec<D> correction = hn::Set(d, corrections[pair]);
#pragma GCC unroll 16
    for (int i = 0; i < kVectors; ++i) {
      acc[pair][i] = hn::Mul(hn::LoadU(d, acc_out + pair * stride + i * kVectorWidth), correction);
    }
  }
  for (int half = 0; half < kHalves; ++half) {
    const int first = half * kLanes;
    const int begin = range.begin > first ? range.begin : first;
    const int end = range.end < first + kLanes ? range.end : first + kLanes;
    const Element* HWY_RESTRICT v = tile.v[half] + (begin - first) * head_dim;
    for (int j = begin; j < end; ++j) {
      if (next != nullptr) {
        for (int64_t e = 0; e < head_dim; e += 64 / sizeof(Element)) {
          PrefetchLine(next->v[half] + (j - first) * head_dim + e, 0);
        }
      }
      RankOneUpdate<kBatch, kVectors, kTile>(
          d, weights + j, [d, v](int i) { return LoadAsFloat(d, v + i * kVectorWidth); }, acc);
      v += head_dim;
    }
  }
#pragma GCC unroll 16
  for (int pair = 0; pair < kBatch; ++pair) {
#pragma GCC unroll 16
    for (int i = 0; i < kVectors; ++i) {
      hn::StoreU(acc[pair][i], d, acc_out + pair * stride + i * kVectorWidth);
    }
  }
}

// `input` with V advanced by `columns` elements; only the first columns prefetch.
template <class Element>
HWY_INLINE TileInput<Element> SkipColumns(const TileInput<Element>& input, int64_t columns) {
  const TileView<Element>& tile = input.tile;
  return {{{tile.k[0], tile.k[1]}, {tile.v[0] + columns, tile.v[1] + columns}},
          columns == 0 ? input.next : nullptr,
          input.head_dim};
}

// ValueColumns over all head_dim columns of acc: as many vectors at once as the registers hold,
// then what is left.
template <int kBatch, class Element>
HWY_NOINLINE void ValueTile(const TileInput<Element>& input, TileRange range,
                            const float* HWY_RESTRICT weights,
                            const float* HWY_RESTRICT corrections, float* HWY_RESTRICT acc) {
  constexpr int kVectors = kAccumulators / kBatch >= 4 ? 4 : 2;
  const int64_t head_dim = input.head_dim;
  int64_t column = 0;
  for (; column + kVectors * kWidth <= head_dim; column += kVectors * kWidth) {
    ValueColumns<kBatch, kVectors>(kFloat, SkipColumns(input, column), range, weights, corrections,
                                   acc + column);
  }
  for (; kVectors > 2 && column + 2 * kWidth <= head_dim; column += 2 * kWidth) {
    ValueColumns<kBatch, 2>(kFloat, SkipColumns(input, column), range, weights, corrections,
                            acc + column);
  }
  for (; column + kWidth <= head_dim; column += kWidth) {
    ValueColumns<kBatch, 1>(kFloat, SkipColumns(input, column), range, weights, corrections,
                            acc + column);
  }
  if constexpr (kWidth > 8) {  // head_dim is a multiple of 8
    if (column < head_dim) {
      ValueColumns<kBatch, 1>(HWY_CAPPED(float, 8)(), SkipColumns(input, column), range, weights,
                              corrections, acc + column);
    }
  }
}

// What the online softmax of a pass carries, per pair. The sums l[16] lie in the partials.
template <int kPairs>
struct SoftmaxState {
  int num_pairs;
  int64_t partial_stride;         // floats from one pair's partial to the next
  HWY_ALIGN float scale[kPairs];  // of a pair's scores
  HWY_ALIGN float max[kPairs];
  HWY_ALIGN float new_max[kPairs];
  HWY_ALIGN float correction[kPairs];
};

// The largest of `max` and the scaled scores of the `num_visible` first positions. Scales the
// scores in place.
HWY_INLINE float ScaleAndMax(float* HWY_RESTRICT scores, float scale, int num_visible, float max) {
  const FloatVector scales = hn::Set(kFloat, scale);
  FloatVector maxima = hn::Set(kFloat, max);
#pragma GCC unroll 16
  for (int i = 0; i < kHalves * kParts; ++i) {
    const FloatVector score = hn::Mul(hn::Load(kFloat, scores + i * kWidth), scales);
    hn::Store(score, kFloat, scores + i * kWidth);
    if (num_visible >= (i + 1) * kWidth) {
      maxima = hn::Max(score, maxima);
    } else if (num_visible > i * kWidth) {
      const auto visible = hn::FirstN(kFloat, static_cast<size_t>(num_visible - i * kWidth));
      maxima = hn::IfThenElse(visible, hn::Max(score, maxima), maxima);
    }
  }
  return hn::GetLane(hn::MaxOfLanes(kFloat, maxima));
}

// scores -> weights Exp(score - max), +0 where masked; l[16] = l * correction + weights.
HWY_INLINE void WeighAndSum(float* HWY_RESTRICT scores, float max, int num_visible,
                            float correction, float* HWY_RESTRICT sums) {
  const FloatVector maxima = hn::Set(kFloat, max);
  FloatVector weights[kHalves * kParts];
#pragma GCC unroll 16
  for (int i = 0; i < kHalves * kParts; ++i) {
    weights[i] = ExpUnclamped(hn::Sub(hn::Load(kFloat, scores + i * kWidth), maxima));
    if (num_visible < (i + 1) * kWidth) {
      const int visible = num_visible > i * kWidth ? num_visible - i * kWidth : 0;
      const auto mask = hn::FirstN(kFloat, static_cast<size_t>(visible));
      weights[i] = hn::IfThenElseZero(mask, weights[i]);
    }
    hn::Store(weights[i], kFloat, scores + i * kWidth);
  }
#pragma GCC unroll 16
  for (int i = 0; i < kParts; ++i) {
    const FloatVector sum = hn::LoadU(kFloat, sums + i * kWidth);
    hn::StoreU(
        hn::MulAdd(sum, hn::Set(kFloat, correction), hn::Add(weights[i], weights[i + kParts])),
        kFloat, sums + i * kWidth);
  }
}

// One step of the online softmax: scores [num_pairs][32] become weights, and `state` and the sums
// in the partials are brought up to date.
template <int kPairs>
HWY_NOINLINE void SoftmaxTile(const int* num_visible, SoftmaxState<kPairs>& state,
                              float* HWY_RESTRICT scores, float* HWY_RESTRICT partials) {
  for (int pair = 0; pair < state.num_pairs; ++pair) {
    state.new_max[pair] =
        ScaleAndMax(scores + pair * kTile, state.scale[pair], num_visible[pair], state.max[pair]);
  }
  const FloatVector minus_infinity = hn::Set(kFloat, -std::numeric_limits<float>::infinity());
  for (int pair = 0; pair < state.num_pairs; pair += kWidth) {
    const FloatVector old_max = hn::Load(kFloat, state.max + pair);
    const FloatVector new_max = hn::Load(kFloat, state.new_max + pair);
    const FloatVector correction = ExpUnclamped(hn::Sub(old_max, new_max));
    hn::Store(hn::IfThenZeroElse(hn::Eq(old_max, minus_infinity), correction), kFloat,
              state.correction + pair);
    hn::Store(new_max, kFloat, state.max + pair);
  }
  for (int pair = 0; pair < state.num_pairs; ++pair) {
    WeighAndSum(scores + pair * kTile, state.max[pair], num_visible[pair], state.correction[pair],
                partials + pair * state.partial_stride + kPartialHeader - kLanes);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace octavo::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
