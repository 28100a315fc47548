#pragma once

// Purpose:    a weight matrix [num_outputs, num_inputs] in the form that the product kernels read:
//             panels of 16 outputs, interleaved so that one vector holds the same input of 16
//             outputs. The integer codes and scales are those of the file: packing moves bits, it
//             never rounds.
// Ownership:  PackedMatrixView borrows; the caller owns the bytes.
// Threading:  Pack works on a range of panels, so that threads may share the work.
// Invariants: the last panel is padded with zero codes and zero scales; a panel's bytes are a
//             multiple of 64 and start at a multiple of panel_bytes from `data`, which is 64-byte
//             aligned.

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace octavo::quant {

inline constexpr int64_t kPanelOutputs = 16;

struct PackedMatrixView {
  tensor::DType dtype;
  int64_t num_outputs;
  int64_t num_inputs;
  size_t panel_bytes;
  const std::byte* data;

  int64_t num_panels() const { return (num_outputs + kPanelOutputs - 1) / kPanelOutputs; }
  bool is_quantized() const {
    return dtype != tensor::DType::kF32 && dtype != tensor::DType::kF16 &&
           dtype != tensor::DType::kBF16;
  }
};

// Bytes of one panel of a matrix with `num_inputs` columns. REQUIRES: num_inputs is a multiple of
// the format's block.
size_t PackedPanelBytes(tensor::DType dtype, int64_t num_inputs);

// Packs panels [panel_begin, panel_end) of the matrix stored row-major at `stored` into `packed`
// (the matrix's first byte).
void PackPanels(tensor::DType dtype, int64_t num_outputs, int64_t num_inputs,
                const std::byte* stored, std::byte* packed, int64_t panel_begin, int64_t panel_end);

}  // namespace octavo::quant
