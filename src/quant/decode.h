#pragma once

// Purpose:    the float32 value of every stored weight: the law for each format (arithmetic.md A1).
// Threading:  pure.

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace octavo::quant {

// Decodes `num_elements` consecutive elements stored at `stored` (little-endian, no alignment
// needed) to `out`.
// REQUIRES: num_elements is a multiple of the format's block.
void DecodeRow(tensor::DType dtype, const std::byte* stored, size_t num_elements, float* out);

}  // namespace octavo::quant
