// What attention does alike for every storage format: where K and V lie, how pairs of a row and a
// head are taken in batches, and the passes of one attend_tiles call.

#include "kernels/attention.h"

// clang-format off
#if defined(OCTAVO_KERNELS_SIMD_ATTENTION_PASS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTAVO_KERNELS_SIMD_ATTENTION_PASS_INL_H
#undef OCTAVO_KERNELS_SIMD_ATTENTION_PASS_INL_H
#else
#define OCTAVO_KERNELS_SIMD_ATTENTION_PASS_INL_H
#endif
// clang-format on

#include "kernels/simd/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace octavo::kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kPassPairs = kAttentionPassPairs;

// Where the K and V of one kv head lie in the blocks.
template <class Element>
class PagedHead {
 public:
  PagedHead(const PagedKvView& view, int64_t kv_head)
      : base_(view.base + static_cast<size_t>(kv_head) * view.head_stride_bytes),
        view_(view),
        block_shift_(
            hwy::Num0BitsBelowLS1Bit_Nonzero32(static_cast<uint32_t>(view.block_size_tokens))) {}

  // K of the positions from `position` on: [head_dim][min(block size, 16)]. REQUIRES: position is a
  // multiple of that minimum.
  const Element* K(int64_t position) const {
    const int64_t slot = position & (view_.block_size_tokens - 1);
    return reinterpret_cast<const Element*>(Block(position)) + slot * view_.head_dim;
  }
  // V of the positions from `position` to the end of its block: [..][head_dim].
  const Element* V(int64_t position) const {
    const int64_t slot = position & (view_.block_size_tokens - 1);
    return reinterpret_cast<const Element*>(Block(position) + view_.v_offset_bytes) +
           slot * view_.head_dim;
  }
  // INT8: the scales of K from `position` to the end of its block; V's lie block_size_tokens on.
  const hwy::float16_t* Scales(int64_t position) const {
    const int64_t slot = position & (view_.block_size_tokens - 1);
    return reinterpret_cast<const hwy::float16_t*>(Block(position) + ScalesOffsetBytes(view_)) +
           slot;
  }

 private:
  const std::byte* Block(int64_t position) const {
    return base_ + view_.block_table[position >> block_shift_] * view_.block_stride_bytes;
  }

  const std::byte* base_;
  const PagedKvView& view_;
  size_t block_shift_;
};

// The size of the first batch of a run of `num_pairs`: as large as the registers allow without
// leaving a sliver of one.
HWY_INLINE int BatchSize(int num_pairs) {
  constexpr int kSizes[13] = {0, 1, 2, 3, 4, 3, 6, 4, 8, 6, 6, 8, 12};
  constexpr int kSmallSizes[7] = {0, 1, 2, 3, 4, 3, 6};
  if constexpr (kMaxBatch >= 12) return num_pairs >= 12 ? 12 : kSizes[num_pairs];
  return num_pairs >= 9 ? 6 : num_pairs >= 7 ? 4 : kSmallSizes[num_pairs];
}

// Calls function(std::integral_constant<int, size>, first pair) for each batch. `kLargest` keeps
// sizes that cannot occur from being compiled.
template <int kLargest, class Function>
HWY_INLINE void ForEachBatch(int num_pairs, const Function& function) {
  for (int first = 0; first < num_pairs;) {
    const int size = BatchSize(num_pairs - first);
    switch (size) {
      case 1:
        function(std::integral_constant<int, 1>(), first);
        break;
      case 2:
        function(std::integral_constant<int, 2>(), first);
        break;
      case 3:
        function(std::integral_constant<int, 3>(), first);
        break;
      case 4:
        function(std::integral_constant<int, 4>(), first);
        break;
      case 6:
        function(std::integral_constant<int, 6>(), first);
        break;
      case 8:
        if constexpr (kLargest >= 8) function(std::integral_constant<int, 8>(), first);
        break;
      default:
        if constexpr (kLargest >= 12) function(std::integral_constant<int, 12>(), first);
        break;
    }
    first += size;
  }
}

// Some pairs of one attend_tiles call: at most kPassPairs, in the order of their rows.
struct Pass {
  const QueryRows& rows;
  int64_t kv_head;
  int64_t head_dim;
  int64_t begin;       // the tiles' first position
  int64_t end;         // and the one after their last
  int64_t first_pair;  // counted from row 0 of `rows`
  int num_pairs;
  float* q;         // [num_pairs][kQueryStride]
  float* scores;    // [num_pairs][32]
  float* partials;  // of the pass's first pair

  int64_t RowOf(int pair) const { return (first_pair + pair) / rows.group_size; }
  const float* QueryOf(int pair) const {
    const int64_t head = kv_head * rows.group_size + (first_pair + pair) % rows.group_size;
    return rows.q + RowOf(pair) * rows.row_stride + head * head_dim;
  }
  // The last position that the pair's row sees.
  int64_t PositionOf(int pair) const {
    return rows.first_position + RowOf(pair) * rows.position_step;
  }
};

// The states of the pairs: none yet at a chunk's first tile, else as the partials have them.
void BeginStates(const Pass& pass, SoftmaxState<kPassPairs>& state) {
  state.num_pairs = pass.num_pairs;
  state.partial_stride = PartialFloats(pass.head_dim);
  for (float& max : state.max) max = -std::numeric_limits<float>::infinity();
  if (pass.begin % kAttentionChunkTokens == 0) {
    std::memset(pass.partials, 0,
                static_cast<size_t>(pass.num_pairs * state.partial_stride) * sizeof(float));
    return;
  }
  for (int pair = 0; pair < pass.num_pairs; ++pair) {
    state.max[pair] = pass.partials[pair * state.partial_stride];
  }
}

// The arguments of attend_tiles.
struct TilesCall {
  const PagedKvView& view;
  const QueryRows& rows;
  int64_t kv_head;
  TileSpan tiles;
  float* scratch;
  float* partials;
};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace octavo::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
