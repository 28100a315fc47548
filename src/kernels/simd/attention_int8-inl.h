// Attention over INT8 K and V, and their storage (arithmetic.md A8b, A9); equal to
// reference/attention_int8.cc bit for bit. Tiles are read as they are stored, by few queries and by
// many; only blocks of 8 positions are first copied into one tile.

// clang-format off
#if defined(OCTAVO_KERNELS_SIMD_ATTENTION_INT8_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTAVO_KERNELS_SIMD_ATTENTION_INT8_INL_H
#undef OCTAVO_KERNELS_SIMD_ATTENTION_INT8_INL_H
#else
#define OCTAVO_KERNELS_SIMD_ATTENTION_INT8_INL_H
#endif
// clang-format on

#include "kernels/simd/attention_int8_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace octavo::kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using HeadTag = HWY_CAPPED(float, 8);  // head_dim is a multiple of 8
constexpr int kHeadWidth = static_cast<int>(hn::MaxLanes(HeadTag()));
constexpr uint32_t kInfinityBits = 0x7f800000u;
constexpr uint16_t kNaNHalf = 0x7e00;

// The largest magnitude of x[head_dim], as bits. REQUIRES: head_dim is a multiple of D's lanes.
template <class D>
HWY_INLINE uint32_t MaxMagnitudeBits(D d, const float* HWY_RESTRICT x, int64_t head_dim) {
  const hn::RebindToUnsigned<D> du;
  auto max = hn::Zero(du);
  for (int64_t i = 0; i < head_dim; i += static_cast<int64_t>(hn::MaxLanes(d))) {
    max = hn::Max(max, hn::BitCast(du, hn::Abs(hn::LoadU(d, x + i))));
  }
  return hn::GetLane(hn::MaxOfLanes(du, max));
}

HWY_INLINE float FloatFromBits(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// What one head of K or V becomes.
struct StoredHead {
  int8_t codes[256];  // [head_dim]
  uint16_t scale;     // FP16
};

void QuantizeHead(const float* HWY_RESTRICT x, int64_t head_dim, StoredHead* head) {
  constexpr HeadTag d;
  const uint32_t max_bits = MaxMagnitudeBits(d, x, head_dim);
  const bool is_finite = max_bits < kInfinityBits;
  head->scale = is_finite ? Float16FromFloat(FloatFromBits(max_bits) / 127.0f) : kNaNHalf;
  if (!is_finite || head->scale == 0) {
    std::memset(head->codes, 0, static_cast<size_t>(head_dim));
    return;
  }
  const auto scale = hn::Set(d, FloatFromFloat16(head->scale));
  const auto limit = hn::Set(d, 127.0f);
  for (int64_t i = 0; i < head_dim; i += kHeadWidth) {
    const auto quotient = hn::Div(hn::LoadU(d, x + i), scale);
    const auto clamped = hn::Min(hn::Max(quotient, hn::Neg(limit)), limit);
    StoreAsBytes(RoundToInteger(clamped), head->codes + i);
  }
}

void StoreKvInt8(const PagedKvView& view, int64_t position, int64_t num_kv_heads, const float* k,
                 const float* v) {
  const int64_t head_dim = view.head_dim;
  const int64_t group = HWY_MIN(view.block_size_tokens, kLanes);
  StoredHead stored;
  for (int64_t kv_head = 0; kv_head < num_kv_heads; ++kv_head) {
    const PagedHead<int8_t> head(view, kv_head);
    auto* const scales = const_cast<hwy::float16_t*>(head.Scales(position));
    QuantizeHead(k + kv_head * head_dim, head_dim, &stored);
    std::memcpy(scales, &stored.scale, sizeof stored.scale);
    int8_t* k_to =
        const_cast<int8_t*>(head.K(position - position % group)) + position % group * kQuad;
    for (int64_t d = 0; d < head_dim; d += kQuad) {
      std::memcpy(k_to + d * group, stored.codes + d, kQuad);
    }
    QuantizeHead(v + kv_head * head_dim, head_dim, &stored);
    std::memcpy(scales + view.block_size_tokens, &stored.scale, sizeof stored.scale);
    int8_t* v_to = const_cast<int8_t*>(head.V(position - position % kQuad)) + position % kQuad;
    for (int64_t d = 0; d < head_dim; ++d) v_to[kQuad * d] = stored.codes[d];
  }
}

// The queries of a pass as codes; the scales of their scores go to `state`. REQUIRES: head_dim is a
// multiple of D's lanes.
template <class D>
void QuantizeQueries(D d, const Pass& pass, const Int8Queries& queries,
                     SoftmaxState<kPassPairs>& state) {
  constexpr int64_t kStep = static_cast<int64_t>(hn::MaxLanes(D()));
  const hn::RebindToSigned<D> di;
  for (int pair = 0; pair < pass.num_pairs; ++pair) {
    const float* HWY_RESTRICT q = pass.QueryOf(pair);
    int8_t* HWY_RESTRICT codes = queries.codes + pair * kCodeStride;
    const uint32_t max_bits = MaxMagnitudeBits(d, q, pass.head_dim);
    const float max = FloatFromBits(max_bits);
    if (max_bits >= kInfinityBits || max < kSmallestMax) {
      std::memset(codes, 0, static_cast<size_t>(pass.head_dim));
      queries.starts[pair] = 0;
      const float scale =
          max_bits >= kInfinityBits ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
      state.scale[pair] = scale * pass.rows.scale;
      continue;
    }
    const auto inverse = hn::Set(d, 127.0f / max);
    auto sum = hn::Zero(di);
    for (int64_t i = 0; i < pass.head_dim; i += kStep) {
      const auto rounded = RoundToInteger(hn::Mul(hn::LoadU(d, q + i), inverse));
      sum = hn::Add(sum, rounded);
      StoreAsBytes(rounded, codes + i);
    }
    queries.starts[pair] = KeyStart(hn::GetLane(hn::SumOfLanes(di, sum)));
    state.scale[pair] = (max / 127.0f) * pass.rows.scale;
  }
}

// A tile as stored. Positions after `last` have no block: such a half repeats the first one, and is
// masked. REQUIRES: blocks of at least 16 positions.
Int8Tile StoredInt8Tile(const PagedHead<int8_t>& head, int64_t block_size, int64_t first,
                        int64_t last) {
  const int64_t second = first + kLanes <= last ? first + kLanes : first;
  const hwy::float16_t* const scales[kHalves] = {head.Scales(first), head.Scales(second)};
  return {{head.K(first), head.K(second)},
          {head.V(first), head.V(second)},
          {scales[0], scales[1]},
          {scales[0] + block_size, scales[1] + block_size}};
}

// A tile copied together from blocks of 8 positions. Those after `last` have no block: any other
// does, as they are masked.
Int8Tile GatherInt8Tile(const PagedHead<int8_t>& head, int64_t head_dim, int64_t first,
                        int64_t last, int8_t* HWY_RESTRICT scratch) {
  constexpr int64_t kBlock = 8;
  const int64_t half_bytes = kLanes * head_dim;
  const int64_t block_bytes = kBlock * head_dim;
  int8_t* const k = scratch;
  int8_t* const v = scratch + kHalves * half_bytes;
  auto* const scales = reinterpret_cast<hwy::float16_t*>(scratch + 2 * kHalves * half_bytes);
  for (int64_t part = 0; part < kTile / kBlock; ++part) {
    const int64_t position = first + part * kBlock <= last ? first + part * kBlock : first;
    const int8_t* HWY_RESTRICT k_from = head.K(position);
    int8_t* HWY_RESTRICT k_to = k + part / 2 * half_bytes + part % 2 * kBlock * kQuad;
    for (int64_t d = 0; d < head_dim; d += kQuad) {
      std::memcpy(k_to + d * kLanes, k_from + d * kBlock, kBlock * kQuad);
    }
    std::memcpy(v + part * block_bytes, head.V(position), static_cast<size_t>(block_bytes));
    const hwy::float16_t* const scales_from = head.Scales(position);
    std::memcpy(scales + part * kBlock, scales_from, kBlock * sizeof *scales);
    std::memcpy(scales + kTile + part * kBlock, scales_from + kBlock, kBlock * sizeof *scales);
  }
  return {{k, k + half_bytes},
          {v, v + half_bytes},
          {scales, scales + kLanes},
          {scales + kTile, scales + kTile + kLanes}};
}

// Where the tiles of a pass come from.
struct Int8Source {
  const PagedHead<int8_t>& head;
  const PagedKvView& view;
  int64_t last;  // the last visible position
  int8_t* scratch;

  bool gathers() const { return view.block_size_tokens < kLanes; }
  Int8Tile Get(int64_t first) const {
    if (gathers()) return GatherInt8Tile(head, view.head_dim, first, last, scratch);
    return StoredInt8Tile(head, view.block_size_tokens, first, last);
  }
};

void AttendInt8Pass(const Pass& pass, const Int8Source& source) {
  const int64_t stride = PartialFloats(pass.head_dim);
  SoftmaxState<kPassPairs> state;
  BeginStates(pass, state);
  HWY_ALIGN int32_t starts[kPassPairs];
  HWY_ALIGN float steps[kPassPairs] = {};
  const Int8Queries queries{reinterpret_cast<int8_t*>(pass.q), starts};
  const Int8Weights weights{reinterpret_cast<uint8_t*>(queries.codes + kPassPairs * kCodeStride),
                            steps};
  if (pass.head_dim % kWidth == 0) {
    QuantizeQueries(kFloat, pass, queries, state);
  } else {
    QuantizeQueries(HeadTag(), pass, queries, state);
  }
  int limits[kPassPairs];  // positions of the tiles that a pair sees
  for (int pair = 0; pair < pass.num_pairs; ++pair) {
    limits[pair] = static_cast<int>(HWY_MIN(pass.end, pass.PositionOf(pair) + 1) - pass.begin);
  }

  const auto end = HWY_MIN(pass.end, source.last + 1);
  for (int64_t first = pass.begin; first < end; first += kTile) {
    // The tile to prefetch may be the next chunk's first: another call will want it soon.
    const Int8Tile tile = source.Get(first);
    const bool prefetches = !source.gathers() && first + kTile <= source.last;
    const Int8Tile next = prefetches ? source.Get(first + kTile) : tile;
    int num_visible[kPassPairs];
    const int offset = static_cast<int>(first - pass.begin);
    for (int pair = 0; pair < pass.num_pairs; ++pair) {
      num_visible[pair] = HWY_MAX(0, HWY_MIN(kTile, limits[pair] - offset));
    }
    ForEachBatch<kMaxBatch>(pass.num_pairs, [&](auto size, int batch) {
      ScoreInt8Tile<size()>(tile, pass.head_dim,
                            {queries.codes + batch * kCodeStride, starts + batch},
                            pass.scores + batch * kTile);
    });
    if (prefetches) PrefetchHalves(next.k, pass.head_dim);
    SoftmaxTile(num_visible, state, pass.scores, pass.partials);
    if (prefetches) PrefetchHalves(next.v, pass.head_dim);
    QuantizeWeights(tile, num_visible, pass.num_pairs, pass.scores, weights);
    ForEachBatch<kMaxBatch>(pass.num_pairs, [&](auto size, int batch) {
      ValueInt8Tile<size()>(
          tile, pass.head_dim,
          {weights.codes + batch * kTile, steps + batch, state.correction + batch},
          pass.partials + batch * stride + kPartialHeader);
    });
  }
  for (int pair = 0; pair < pass.num_pairs; ++pair) pass.partials[pair * stride] = state.max[pair];
}

void AttendTilesInt8(const TilesCall& call) {
  const int64_t head_dim = call.view.head_dim;
  const PagedHead<int8_t> head(call.view, call.kv_head);
  const int64_t end_pair = call.rows.num_rows * call.rows.group_size;
  float* const q = call.scratch + 2 * kTile * head_dim;
  float* partials = call.partials;
  for (int64_t pair = 0; pair < end_pair; pair += kPassPairs) {
    const int num_pairs = static_cast<int>(HWY_MIN(kPassPairs, end_pair - pair));
    const Pass pass{.rows = call.rows,
                    .kv_head = call.kv_head,
                    .head_dim = head_dim,
                    .begin = call.tiles.begin * kTile,
                    .end = call.tiles.end * kTile,
                    .first_pair = pair,
                    .num_pairs = num_pairs,
                    .q = q,
                    .scores = q + kPassPairs * kQueryStride,
                    .partials = partials};
    AttendInt8Pass(pass, {head, call.view, pass.PositionOf(num_pairs - 1),
                          reinterpret_cast<int8_t*>(call.scratch)});
    partials += num_pairs * PartialFloats(head_dim);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace octavo::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
