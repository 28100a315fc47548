#pragma once

// Purpose:    one stored block of a format, taken apart: the codes as packed (unsigned), and the
//             integer scales of a K-format.
// Threading:  pure.

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace octavo::quant {

struct BlockParts {
  uint16_t d;          // FP16 bits
  uint16_t minimum;    // FP16 bits: m or dmin; 0 where the format has none
  uint8_t codes[256];  // one per element of the block
  int8_t scales[16];   // K-formats: one per sub-block
  int8_t minima[16];   // K-formats with a minimum: one per sub-block
};

// Takes apart the block at `stored` (no alignment needed). REQUIRES: a quantised format.
void SplitBlock(tensor::DType dtype, const std::byte* stored, BlockParts* parts);

}  // namespace octavo::quant
