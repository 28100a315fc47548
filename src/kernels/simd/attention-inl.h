// Attention and the storage of K and V, one instruction set at a time; equal to
// reference/attention.cc bit for bit. A few queries read K and V from their blocks as they are
// stored; more of them unpack each tile once and reuse it. INT8 is in attention_int8-inl.h.

#include "kernels/simd/attention_int8-inl.h"
#include "kernels/simd/attention_pass-inl.h"

HWY_BEFORE_NAMESPACE();
namespace octavo::kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Up to this many pairs read the stored K and V; above it unpacking a tile pays.
constexpr int kMaxDirectPairs = 8;

// A tile of K and V as stored. Positions after `last` have no block: such a half repeats the first
// one, and is masked.
template <class Element>
TileView<Element> StoredTile(const PagedHead<Element>& head, int64_t first, int64_t last) {
  const int64_t second = first + kLanes <= last ? first + kLanes : first;
  return {{head.K(first), head.K(second)}, {head.V(first), head.V(second)}};
}

template <class Element>
HWY_INLINE void CopyAsFloat(const Element* HWY_RESTRICT from, int64_t count,
                            float* HWY_RESTRICT to) {
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    hn::StoreU(LoadAsFloat(kFloat, from + i), kFloat, to + i);
  }
  using D = HWY_CAPPED(float, 8);
  for (; i < count; i += hn::MaxLanes(D())) {
    hn::StoreU(LoadAsFloat(D(), from + i), D(), to + i);
  }
}

// Unpacks the tile at `first` to float32. Blocks of 8 hold [head_dim][8]: two of them make a half.
template <class Element>
TileView<float> UnpackTile(const PagedHead<Element>& head, const PagedKvView& view, int64_t first,
                           int64_t last, float* HWY_RESTRICT scratch) {
  const int64_t half_floats = kLanes * view.head_dim;
  float* k = scratch;
  float* v = scratch + kHalves * half_floats;
  const bool second = first + kLanes <= last;
  for (int half = 0; half < (second ? kHalves : 1); ++half) {
    const int64_t position = first + half * kLanes;
    float* k_half = k + half * half_floats;
    float* v_half = v + half * half_floats;
    if (view.block_size_tokens >= kLanes) {
      CopyAsFloat(head.K(position), half_floats, k_half);
      CopyAsFloat(head.V(position), half_floats, v_half);
      continue;
    }
    for (int part = 0; part < 2; ++part) {
      // A part that no row sees has no block: any other keys do, as they are masked.
      const int64_t from = position + 8 * part <= last ? position + 8 * part : position;
      const Element* stored = head.K(from);
      for (int64_t d = 0; d < view.head_dim; ++d) {
        CopyAsFloat(stored + 8 * d, 8, k_half + kLanes * d + 8 * part);
      }
      CopyAsFloat(head.V(from), half_floats / 2, v_half + part * (half_floats / 2));
    }
  }
  return {{k, second ? k + half_floats : k}, {v, second ? v + half_floats : v}};
}

void PackQueries(const Pass& pass) {
  for (int pair = 0; pair < pass.num_pairs; ++pair) {
    std::memcpy(pass.q + pair * kQueryStride, pass.QueryOf(pair),
                static_cast<size_t>(pass.head_dim) * sizeof(float));
  }
}

// Adds the weighted values of one batch. Pairs of later rows may see more of the tile than the
// first pair: that part is added pair by pair.
template <int kBatch, class Element>
void AddValues(const TileInput<Element>& input, const int* num_visible, const float* weights,
               const float* corrections, float* partials) {
  const int common = num_visible[0];
  ValueTile<kBatch>(input, {0, common}, weights, corrections, partials + kPartialHeader);
  const float no_correction = 1.0f;
  for (int pair = 1; pair < kBatch; ++pair) {
    if (num_visible[pair] == common) continue;
    ValueTile<1, Element>({input.tile, nullptr, input.head_dim}, {common, num_visible[pair]},
                          weights + pair * kTile, &no_correction,
                          partials + pair * PartialFloats(input.head_dim) + kPartialHeader);
  }
}

// Attends the pairs of `pass` to its tiles. tiles.Get(position) gives a tile; if Tiles::kPrefetch
// the next one is asked for early.
template <class Tiles>
void AttendPass(const Pass& pass, const Tiles& tiles) {
  using Element = typename Tiles::ElementType;
  constexpr int kLargest = Tiles::kPrefetch ? HWY_MIN(kMaxBatch, kMaxDirectPairs) : kMaxBatch;
  const int64_t stride = PartialFloats(pass.head_dim);
  SoftmaxState<kPassPairs> state;
  BeginStates(pass, state);
  for (float& scale : state.scale) scale = pass.rows.scale;
  int limits[kPassPairs];  // positions of the tiles that a pair sees
  for (int pair = 0; pair < pass.num_pairs; ++pair) {
    limits[pair] = static_cast<int>(HWY_MIN(pass.end, pass.PositionOf(pair) + 1) - pass.begin);
  }
  PackQueries(pass);

  const int64_t last = pass.PositionOf(pass.num_pairs - 1);
  const int end = limits[pass.num_pairs - 1];
  TileView<Element> tile = tiles.Get(pass.begin);
  for (int offset = 0; offset < end; offset += kTile) {
    // The tile to prefetch may be the next chunk's first: another call will want it soon.
    const int64_t first = pass.begin + offset;
    TileView<Element> next_tile = tile;
    const TileView<Element>* next = nullptr;
    if (Tiles::kPrefetch && first + kTile <= last) {
      next_tile = tiles.Get(first + kTile);
      next = &next_tile;
    } else if (!Tiles::kPrefetch && offset > 0) {
      tile = tiles.Get(first);
    }
    int num_visible[kPassPairs];
    for (int pair = 0; pair < pass.num_pairs; ++pair) {
      num_visible[pair] = HWY_MAX(0, HWY_MIN(kTile, limits[pair] - offset));
    }
    ForEachBatch<kLargest>(pass.num_pairs, [&](auto size, int batch) {
      ScoreTile<size()>(TileInput<Element>{tile, batch == 0 ? next : nullptr, pass.head_dim},
                        pass.q + batch * kQueryStride, pass.scores + batch * kTile);
    });
    SoftmaxTile(num_visible, state, pass.scores, pass.partials);
    ForEachBatch<kLargest>(pass.num_pairs, [&](auto size, int batch) {
      AddValues<size()>(TileInput<Element>{tile, batch == 0 ? next : nullptr, pass.head_dim},
                        num_visible + batch, pass.scores + batch * kTile, state.correction + batch,
                        pass.partials + batch * stride);
    });
    if (Tiles::kPrefetch) tile = next_tile;
  }
  for (int pair = 0; pair < pass.num_pairs; ++pair) pass.partials[pair * stride] = state.max[pair];
}

// Tiles as they are stored; needs blocks of at least 16 positions.
template <class Element, bool kPrefetchNext>
struct StoredTiles {
  using ElementType = Element;
  static constexpr bool kPrefetch = kPrefetchNext;
  TileView<Element> Get(int64_t first) const { return StoredTile(head, first, last); }

  const PagedHead<Element>& head;
  int64_t last;  // the last visible position
};

// Tiles unpacked to float32; the stored ones are asked for a tile early.
template <class Element>
struct UnpackedTiles {
  using ElementType = float;
  static constexpr bool kPrefetch = false;
  TileView<float> Get(int64_t first) const {
    if (view.block_size_tokens >= kLanes) PrefetchTile(first + kTile);
    return UnpackTile(head, view, first, last, scratch);
  }
  void PrefetchTile(int64_t first) const {
    const int64_t half_bytes = kLanes * view.head_dim * static_cast<int64_t>(sizeof(Element));
    for (int64_t position = first; position < first + kTile; position += kLanes) {
      if (position > last) return;
      for (int64_t byte = 0; byte < half_bytes; byte += 64) {
        PrefetchLine(head.K(position), byte);
        PrefetchLine(head.V(position), byte);
      }
    }
  }

  const PagedHead<Element>& head;
  const PagedKvView& view;
  int64_t last;
  float* scratch;
};

template <class Element>
void AttendTilesOf(const TilesCall& call) {
  const int64_t head_dim = call.view.head_dim;
  const PagedHead<Element> head(call.view, call.kv_head);
  const bool whole_halves = call.view.block_size_tokens >= kLanes;
  const int64_t end_pair = call.rows.num_rows * call.rows.group_size;
  const bool direct = whole_halves && end_pair <= kMaxDirectPairs;
  float* const q = call.scratch + 2 * kTile * head_dim;
  float* const scores = q + kPassPairs * kQueryStride;
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
                    .scores = scores,
                    .partials = partials};
    const int64_t last = pass.PositionOf(num_pairs - 1);
    if (direct) {
      AttendPass(pass, StoredTiles<Element, true>{head, last});
    } else if (whole_halves && sizeof(Element) == sizeof(float)) {
      AttendPass(pass, StoredTiles<float, false>{PagedHead<float>(call.view, call.kv_head), last});
    } else {
      AttendPass(pass, UnpackedTiles<Element>{head, call.view, last, call.scratch});
    }
    partials += num_pairs * PartialFloats(head_dim);
  }
}

void AttendTiles(const PagedKvView& view, const QueryRows& rows, int64_t kv_head, TileSpan tiles,
                 float* scratch, float* partials) {
  OCTAVO_DCHECK(rows.first_position >= tiles.begin * kTile, "a row sees nothing of the tiles");
  const auto attend = view.dtype == KvDtype::kFloat32   ? AttendTilesOf<float>
                      : view.dtype == KvDtype::kFloat16 ? AttendTilesOf<hwy::float16_t>
                      : view.dtype == KvDtype::kInt8    ? AttendTilesInt8
                                                        : AttendTilesOf<hwy::bfloat16_t>;
  attend({view, rows, kv_head, tiles, scratch, partials});
}

using StoreTag = HWY_CAPPED(float, 8);

HWY_INLINE void StoreAs(hn::Vec<StoreTag> x, float* to) { hn::StoreU(x, StoreTag(), to); }

HWY_INLINE void StoreAs(hn::Vec<StoreTag> x, hwy::float16_t* to) {
  constexpr StoreTag d;
  const auto largest = hn::Set(d, 65504.0f);
  // Blends rather than Min and Max, so that NaN stays NaN.
  const auto saturated = hn::IfThenElse(hn::Gt(hn::Abs(x), largest), hn::CopySign(largest, x), x);
  const hn::Rebind<hwy::float16_t, StoreTag> df16;
  hn::StoreU(hn::DemoteTo(df16, saturated), df16, to);
}

HWY_INLINE void StoreAs(hn::Vec<StoreTag> x, hwy::bfloat16_t* to) {
  constexpr StoreTag d;
  const hn::RebindToUnsigned<StoreTag> du32;
  const hn::RebindToSigned<StoreTag> di32;
  const hn::Rebind<uint16_t, StoreTag> du16;
  const auto bits = hn::BitCast(du32, x);
  const auto high = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(high, hn::Set(du32, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du32, 0x7fff))));
  const auto quiet = hn::Or(high, hn::Set(du32, 0x40));
  const auto is_nan = hn::RebindMask(du32, hn::Ne(x, x));
  const auto result = hn::BitCast(di32, hn::IfThenElse(is_nan, quiet, rounded));
  static_cast<void>(d);
  hn::StoreU(hn::DemoteTo(du16, result), du16, reinterpret_cast<uint16_t*>(to));
}

template <class Element>
void StoreKvOf(const PagedKvView& view, int64_t position, int64_t num_kv_heads, const float* k,
               const float* v) {
  const int64_t head_dim = view.head_dim;
  const int64_t group = HWY_MIN(view.block_size_tokens, kLanes);
  for (int64_t kv_head = 0; kv_head < num_kv_heads; ++kv_head) {
    const PagedHead<Element> head(view, kv_head);
    Element* k_to = const_cast<Element*>(head.K(position - position % group)) + position % group;
    Element* v_to = const_cast<Element*>(head.V(position));
    for (int64_t d = 0; d < head_dim; d += 8) {
      Element converted[8];
      for (int64_t i = 0; i < 8; i += hn::MaxLanes(StoreTag())) {
        StoreAs(hn::LoadU(StoreTag(), k + kv_head * head_dim + d + i), converted + i);
        StoreAs(hn::LoadU(StoreTag(), v + kv_head * head_dim + d + i), v_to + d + i);
      }
      for (int64_t i = 0; i < 8; ++i) k_to[(d + i) * group] = converted[i];
    }
  }
}

void StoreKv(const PagedKvView& view, int64_t position, int64_t num_kv_heads, const float* k,
             const float* v) {
  const auto store = view.dtype == KvDtype::kFloat32   ? StoreKvOf<float>
                     : view.dtype == KvDtype::kFloat16 ? StoreKvOf<hwy::float16_t>
                     : view.dtype == KvDtype::kInt8    ? StoreKvInt8
                                                       : StoreKvOf<hwy::bfloat16_t>;
  store(view, position, num_kv_heads, k, v);
}

void FoldPartial(float* running, const float* next, int64_t head_dim) {
  using D = HWY_CAPPED(float, 8);
  constexpr D d;
  const float max = next[0] > running[0] ? next[0] : running[0];
  const auto a = hn::Set(d, kernels::Exp(running[0] - max));
  const auto b = hn::Set(d, kernels::Exp(next[0] - max));
  for (int64_t i = kPartialHeader - kLanes; i < PartialFloats(head_dim); i += hn::MaxLanes(d)) {
    const auto scaled = hn::Mul(hn::LoadU(d, running + i), a);
    hn::StoreU(hn::MulAdd(hn::LoadU(d, next + i), b, scaled), d, running + i);
  }
  running[0] = max;
}

void Finish(const float* running, int64_t head_dim, float* out) {
  using D = HWY_CAPPED(float, 8);
  constexpr D d;
  float sums[kLanes];
  std::memcpy(sums, running + kPartialHeader - kLanes, sizeof sums);
  const auto sum = hn::Set(d, LaneTree(sums));
  for (int64_t i = 0; i < head_dim; i += hn::MaxLanes(d)) {
    hn::StoreU(hn::Div(hn::LoadU(d, running + kPartialHeader + i), sum), d, out + i);
  }
}

}  // namespace

constexpr AttentionKernels kAttention{StoreKv, AttendTiles, FoldPartial, Finish};

}  // namespace HWY_NAMESPACE
}  // namespace octavo::kernels
HWY_AFTER_NAMESPACE();
