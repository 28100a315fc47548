// Purpose:    reading packed panels (quant/packed_format.h) a column of lanes at a time: a column
//             is the kLanes consecutive outputs that one vector holds; a panel has 1 (AVX-512), 2
//             (AVX2) or 4 (NEON) of them.

#if defined(OCTAVO_KERNELS_SIMD_PANEL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef OCTAVO_KERNELS_SIMD_PANEL_INL_H
#undef OCTAVO_KERNELS_SIMD_PANEL_INL_H
#else
#define OCTAVO_KERNELS_SIMD_PANEL_INL_H
#endif

#include <cstddef>
#include <cstdint>

#include "kernels/simd/quad_dot-inl.h"
#include "kernels/simd/target-inl.h"
#include "quant/packed_format.h"

HWY_BEFORE_NAMESPACE();
namespace octavo::kernels {
namespace HWY_NAMESPACE {

using quant::PackedFormat;
using quant::PackedMatrixView;
using tensor::DType;

inline constexpr int kColumnsPerPanel = static_cast<int>(quant::kPanelOutputs) / kLanes;

// Where one column's parts begin.
struct Column {
  const uint8_t* halves;  // FP16 d of the first group or superblock; the minimum lies 32 bytes on
  const uint8_t* bytes;   // K-formats: the first superblock's int8 scales
  const uint8_t* codes;   // the first group's first vector
};

// Column `index` (from the matrix's first output on) of a quantised matrix.
template <DType kType>
HWY_INLINE Column ColumnAt(const PackedMatrixView& w, int64_t index) {
  constexpr PackedFormat kFormat = quant::PackedFormatOf(kType);
  const int64_t part = index % kColumnsPerPanel;
  const uint8_t* panel = reinterpret_cast<const uint8_t*>(w.data) +
                         static_cast<size_t>(index / kColumnsPerPanel) * w.panel_bytes;
  return {panel + part * kLanes * 2, panel + (kFormat.has_min ? 64 : 32) + part * kLanes,
          panel + kFormat.scale_bytes(w.num_inputs) + part * kLanes * 4};
}

HWY_INLINE Vf LoadHalves(const uint8_t* halves) {
  const hn::Rebind<hwy::float16_t, Df> dh;
  return hn::PromoteTo(Df(), hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(halves)));
}

HWY_INLINE Vi LoadBytes(const uint8_t* bytes) {
  const hn::Rebind<int8_t, Di> d8;
  return hn::PromoteTo(Di(), hn::LoadU(d8, reinterpret_cast<const int8_t*>(bytes)));
}

// The bits of each byte moved down by `count`, or up by -count; what enters from another byte is to
// be masked. `count` is known where it is inlined.
HWY_INLINE V8 MoveBitsDown(V8 v, int count) {
  const hn::Repartition<uint16_t, D8> d16;
  const auto words = hn::BitCast(d16, v);
  const D8 d;
  switch (count) {
    case -4:
      return hn::BitCast(d, hn::ShiftLeft<4>(words));
    case -3:
      return hn::BitCast(d, hn::ShiftLeft<3>(words));
    case -2:
      return hn::BitCast(d, hn::ShiftLeft<2>(words));
    case -1:
      return hn::BitCast(d, hn::ShiftLeft<1>(words));
    case 1:
      return hn::BitCast(d, hn::ShiftRight<1>(words));
    case 2:
      return hn::BitCast(d, hn::ShiftRight<2>(words));
    case 3:
      return hn::BitCast(d, hn::ShiftRight<3>(words));
    case 4:
      return hn::BitCast(d, hn::ShiftRight<4>(words));
    case 5:
      return hn::BitCast(d, hn::ShiftRight<5>(words));
    case 6:
      return hn::BitCast(d, hn::ShiftRight<6>(words));
    default:
      return v;
  }
}

// The plane of kBits bits at `plane`: its bits of quad `t`, from bit kTo of each byte on, among
// others.
template <int kBits, int kTo>
HWY_INLINE V8 LoadPlane(const uint8_t* plane, int t) {
  const V8 packed = hn::LoadU(D8(), plane + t % kBits * quant::kQuadBytes);
  return MoveBitsDown(packed, t / kBits * kBits - kTo);
}

// The codes of quad `t` of the group at `codes`, as they are packed.
template <int kCodeBits>
HWY_INLINE V8 LoadPlanes(const uint8_t* codes, int t) {
  if constexpr (kCodeBits == 8) return LoadPlane<8, 0>(codes, t);
  constexpr int kLowBits = kCodeBits >= 4 ? 4 : 2;
  constexpr int kHighBits = kCodeBits - kLowBits;
  const D8 d;
  const auto low_mask = hn::Set(d, static_cast<uint8_t>((1 << kLowBits) - 1));
  const V8 low = hn::And(LoadPlane<kLowBits, 0>(codes, t), low_mask);
  if constexpr (kHighBits == 0) return low;
  const auto high_mask = hn::Set(d, static_cast<uint8_t>(((1 << kHighBits) - 1) << kLowBits));
  const uint8_t* high_plane = codes + kLowBits * quant::kQuadBytes;
  return hn::OrAnd(low, LoadPlane<HWY_MAX(kHighBits, 1), kLowBits>(high_plane, t), high_mask);
}

// Quad `t` (0..7) of the group at `codes`: unsigned codes whose value is code - BiasOf(), or the
// signed values q.
template <DType kType, bool kUnsigned>
HWY_INLINE V8 LoadCodes(const uint8_t* codes, int t) {
  constexpr PackedFormat kFormat = quant::PackedFormatOf(kType);
  const D8 d;
  const V8 v = LoadPlanes<kFormat.code_bits>(codes, t);
  if constexpr (kFormat.has_table) {
    const hn::Repartition<int8_t, D8> ds;
    V8 table = hn::BitCast(d, hn::LoadDup128(ds, quant::kIq4NlValues));
    if constexpr (kUnsigned) table = hn::Xor(table, hn::Set(d, uint8_t{0x80}));
    return hn::TableLookupBytes(table, v);
  }
  if constexpr (kUnsigned || kFormat.code_offset == 0) return v;
  return hn::Sub(v, hn::Set(d, static_cast<uint8_t>(kFormat.code_offset)));
}

// The quad of step `i` of a group's 8: of planes of 4 bits a vector holds quads t and t + 4, and
// both are taken at once.
template <DType kType>
constexpr int QuadOfStep(int i) {
  constexpr int kBits = quant::PackedFormatOf(kType).code_bits;
  return kBits >= 4 && kBits < 8 ? (i & 1) * 4 + (i >> 1) : i;
}

// What the unsigned codes of LoadCodes lie above q.
template <DType kType>
constexpr int BiasOf() {
  constexpr PackedFormat kFormat = quant::PackedFormatOf(kType);
  return kFormat.has_table ? 128 : kFormat.code_offset;
}

// The largest operand that LoadCodes gives.
template <DType kType>
constexpr int LargestOperand() {
  constexpr PackedFormat kFormat = quant::PackedFormatOf(kType);
  return kFormat.has_table ? 255 : kFormat.max_code;
}

// Outputs of column `index` that exist: kLanes but for the last columns.
HWY_INLINE int64_t LanesOf(const PackedMatrixView& w, int64_t index) {
  const int64_t rest = w.num_outputs - index * kLanes;
  return HWY_MAX(HWY_MIN(rest, int64_t{kLanes}), int64_t{0});
}

// Stores the first `lanes` lanes.
HWY_INLINE void StoreLanes(Vf v, int64_t lanes, float* out) {
  if (lanes == kLanes) return hn::StoreU(v, Df(), out);
  HWY_ALIGN float buffer[kLanes];
  hn::Store(v, Df(), buffer);
  for (int64_t i = 0; i < lanes; ++i) out[i] = buffer[i];
}

HWY_INLINE Vf LoadLanes(int64_t lanes, const float* in) {
  if (lanes == kLanes) return hn::LoadU(Df(), in);
  HWY_ALIGN float buffer[kLanes] = {};
  for (int64_t i = 0; i < lanes; ++i) buffer[i] = in[i];
  return hn::Load(Df(), buffer);
}

}  // namespace HWY_NAMESPACE
}  // namespace octavo::kernels
HWY_AFTER_NAMESPACE();

#endif  // OCTAVO_KERNELS_SIMD_PANEL_INL_H
