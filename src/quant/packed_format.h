#pragma once

// Purpose:    the bytes of a packed panel (16 outputs), which packing writes and the product
//             kernels read.
// Ownership:  plain data.
// Threading:  any.
// Invariants: F32, F16 and BF16: the elements [num_inputs][16], padded to 64 bytes. Quantised
//             formats: a scale section, padded to 64 bytes, then a code section of num_inputs / 32
//             groups. A group of codes is a sequence of 64-byte vectors: byte 4 o + i of a vector
//             belongs to output o and input i of four consecutive inputs (a quad, 0..7 in a
//             group). Codes lie in planes of 8, 4, 2 or 1 bits, the widest first: codes of 5 bits
//             are a plane of their 4 low bits, then one of their highest. A plane of w bits is w
//             vectors: quad t is in vector t % w, from bit t / w * w of each byte on. Codes are
//             unsigned: q = code - code_offset, or for IQ4_NL q = kIq4NlValues[code]. Scale
//             section: formats with a scale per 32 weights: per group, FP16 d[16] and, with a
//             minimum, FP16 m[16]. K-formats: per superblock (256 inputs), FP16 d[16]; with a
//             minimum, FP16 dmin[16]; then int8 scales [256 / sub_block][16] and, with a minimum,
//             int8 minima [256 / sub_block][16].
// See docs/decisions/0002-packed-weights.md for why.

#include <cstddef>
#include <cstdint>

#include "quant/packed_matrix.h"
#include "tensor/dtype.h"

namespace octavo::quant {

inline constexpr int64_t kGroupInputs = 32;        // inputs per group of codes
inline constexpr int64_t kQuadBytes = 64;          // one vector of codes: 4 inputs of 16 outputs
inline constexpr int64_t kSuperblockInputs = 256;  // inputs per FP16 scale of a K-format
inline constexpr int64_t kGroupsPerSuperblock = kSuperblockInputs / kGroupInputs;

inline constexpr int8_t kIq4NlValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                            1,    13,   25,  38,  53,  69,  89,  113};

// How one quantised format is packed.
struct PackedFormat {
  int code_bits;    // 2, 3, 4, 5, 6 or 8
  int code_offset;  // q = code - code_offset
  int max_code;     // the largest code
  bool has_table;   // q = kIq4NlValues[code] instead
  bool has_min;
  int sub_block;  // K-formats: inputs per integer scale, 16 or 32; otherwise 0

  constexpr bool is_k() const { return sub_block != 0; }
  constexpr int64_t group_bytes() const { return kGroupInputs * kPanelOutputs * code_bits / 8; }
  // Scale bytes of one group, or of one superblock of a K-format.
  constexpr int64_t scale_stride() const {
    const int64_t halves = (has_min ? 2 : 1) * 2 * kPanelOutputs;
    if (!is_k()) return halves;
    return halves + (has_min ? 2 : 1) * (kSuperblockInputs / sub_block) * kPanelOutputs;
  }
  // Bytes of the scale section, which is also the offset of the codes in a panel.
  constexpr int64_t scale_bytes(int64_t num_inputs) const {
    const int64_t bytes = num_inputs / (is_k() ? kSuperblockInputs : kGroupInputs) * scale_stride();
    return (bytes + 63) / 64 * 64;
  }
};

// The widths that planes of codes may have, in their order.
inline constexpr int kPlaneBits[] = {8, 4, 2, 1};

// REQUIRES: a quantised format.
constexpr PackedFormat PackedFormatOf(tensor::DType dtype) {
  using tensor::DType;
  switch (dtype) {
    case DType::kQ4_0:
      return {4, 8, 15, false, false, 0};
    case DType::kQ4_1:
      return {4, 0, 15, false, true, 0};
    case DType::kQ5_0:
      return {5, 16, 31, false, false, 0};
    case DType::kQ5_1:
      return {5, 0, 31, false, true, 0};
    case DType::kQ8_0:
      return {8, 128, 255, false, false, 0};
    case DType::kIQ4_NL:
      return {4, 0, 15, true, false, 0};
    case DType::kQ2_K:
      return {2, 0, 3, false, true, 16};
    case DType::kQ3_K:
      return {3, 4, 7, false, false, 16};
    case DType::kQ4_K:
      return {4, 0, 15, false, true, 32};
    case DType::kQ5_K:
      return {5, 0, 31, false, true, 32};
    case DType::kQ6_K:
      return {6, 32, 63, false, false, 16};
    default:
      return {0, 0, 0, false, false, 0};  // F32, F16, BF16: no codes
  }
}

}  // namespace octavo::quant
