// Purpose:    what the tiles of int8 and int16 products share: their sizes, the weights of their
//             columns, and reading these.

#if defined(OCTAVO_KERNELS_SIMD_TILE_COLUMNS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTAVO_KERNELS_SIMD_TILE_COLUMNS_INL_H
#undef OCTAVO_KERNELS_SIMD_TILE_COLUMNS_INL_H
#else
#define OCTAVO_KERNELS_SIMD_TILE_COLUMNS_INL_H
#endif

#include <cstdint>

#include "kernels/simd/panel-inl.h"
#include "kernels/simd/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace octavo::kernels {
namespace HWY_NAMESPACE {

// The most rows of a tile: its sums and accumulators stay in registers.
inline constexpr int kMaxTileRows = HWY_TARGET == HWY_AVX3 ? 6 : 4;

// Rows from which codes are expanded first (measured with int8: 16 rows lose a sixth by it, 128
// rows gain 4 to 8 %). All tiles are then of the most rows or one fewer.
inline constexpr int kExpandedRows = 8 * kMaxTileRows;
inline constexpr int kMinExpandedTileRows = kMaxTileRows - 1;

// Columns of a tile. One row is bound by memory: it takes one panel at a time, so that the weights
// are read in their order.
template <int kRows>
constexpr int TileColumns() {
  if (kRows == 1) return kColumnsPerPanel;
  return HWY_TARGET == HWY_AVX2 ? 1 : 2;
}

// Columns that all rows pass before the next ones: with AVX-512 two panels, otherwise one.
inline constexpr int kBlockColumns = HWY_MAX(2, kColumnsPerPanel);

// What a tile prefetches while it multiplies: a group of the panel `distance` bytes ahead of its
// own, at every `every`-th of its groups.
struct PrefetchShare {
  int64_t distance;
  int64_t every;
  int64_t next_group;
  int64_t wait;  // the tile's groups until next_group's turn
};

// Several rows: the next block's weights once. Each tile of this block takes an equal part of them,
// so that they arrive while all of it is computed. REQUIRES: tile < num_tiles.
HWY_INLINE PrefetchShare PrefetchOfTile(size_t panel_bytes, int64_t tile, int64_t num_tiles,
                                        int64_t num_groups) {
  constexpr int64_t kPanels = kBlockColumns / kColumnsPerPanel;
  const int64_t next_group = (tile * num_groups + num_tiles - 1) / num_tiles;
  return {static_cast<int64_t>(panel_bytes) * kPanels, num_tiles, next_group,
          next_group * num_tiles - tile * num_groups};
}

// One tile's weights and where its results go.
template <int kColumns>
struct TileColumnsOf {
  Column columns[kColumns];
  float* out[kColumns];      // row 0's first output of the column
  int64_t lanes[kColumns];   // outputs to store
  PrefetchShare prefetch{};  // of several rows of packed codes
  int64_t group_begin;       // the chains start here at 0, otherwise they go on from the output
  int64_t group_end;
};

// The scales and minima of one group of one column.
struct GroupScales {
  Vf d;
  Vf minimum;    // m or dmin
  Vf scale[2];   // K-formats: sc of the halves
  Vi minima[2];  // K-formats: mn of the halves
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
      s.minima[0] = LoadBytes(scales + kMinima);
      if constexpr (kPerGroup == 2) {
        s.minima[1] = LoadBytes(scales + kMinima + quant::kPanelOutputs);
      }
    }
  }
  return s;
}

// A panel's bytes of one group: codes and scales.
template <DType kType>
constexpr int64_t PanelGroupBytes() {
  constexpr PackedFormat kFormat = quant::PackedFormatOf(kType);
  return kFormat.group_bytes() +
         kFormat.scale_stride() / (kFormat.is_k() ? quant::kGroupsPerSuperblock : 1);
}

// Prefetches a panel's share of one group, `distance` bytes ahead. It may point beyond the matrix,
// which does no harm.
template <DType kType, int kLocality>
HWY_INLINE void PrefetchGroup(const Column& column, int64_t g, int64_t distance) {
  constexpr int64_t kBytes = PanelGroupBytes<kType>();
  const uint8_t* ahead = column.halves + distance + g * kBytes;
#pragma GCC unroll 16
  for (int64_t i = 0; i < kBytes; i += 64) __builtin_prefetch(ahead + i, 0, kLocality);
}

// Measured on Zen 4 with 4 bits a code where two threads read 35 GB/s: 36; with 2 KiB instead of 4,
// or without, 17 to 22. Codes of 8 bits with AVX-512 reached 29 of 35 and 35 of 58 so; coming into
// L2 first and into L1 one group ahead they reach 35 and 49. AVX2 gains nothing by that.
template <DType kType>
HWY_INLINE void PrefetchOneRow(const Column& panel, int64_t g) {
  constexpr int64_t kDistance = 4096;
  if constexpr (HWY_TARGET == HWY_AVX3 && quant::PackedFormatOf(kType).code_bits == 8) {
    PrefetchGroup<kType, 2>(panel, g, kDistance);
    PrefetchGroup<kType, 3>(panel, g, PanelGroupBytes<kType>());
  } else {
    PrefetchGroup<kType, 3>(panel, g, kDistance);
  }
}

// Called once for each group of a tile of packed codes. Several rows: into L2 (measured with 4 rows
// on Zen 4: 35 GB/s, into L1 25).
template <DType kType, int kRows, int kColumns>
HWY_INLINE void PrefetchAhead(const TileColumnsOf<kColumns>& w, int64_t g, PrefetchShare* share) {
  if constexpr (kRows == 1) {
    PrefetchOneRow<kType>(w.columns[0], g);
    return;
  }
  if (share->wait-- > 0) return;
  share->wait = share->every - 1;
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; c += kColumnsPerPanel) {
    PrefetchGroup<kType, 2>(w.columns[c], share->next_group, share->distance);
  }
  ++share->next_group;
}

}  // namespace HWY_NAMESPACE
}  // namespace octavo::kernels
HWY_AFTER_NAMESPACE();

#endif  // OCTAVO_KERNELS_SIMD_TILE_COLUMNS_INL_H
