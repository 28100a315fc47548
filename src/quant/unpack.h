#pragma once

// Purpose:    reading packed matrices output by output: the plain way, for the reference kernels,
//             embedding rows and tests.
// Threading:  pure.

#include <cstdint>

#include "quant/packed_matrix.h"

namespace octavo::quant {

// One group (32 inputs) of one output of a quantised format, in the terms of arithmetic.md A4.
struct UnpackedGroup {
  int8_t codes[32];  // q
  float d;
  float minimum;      // m or dmin; 0 where the format has none
  int32_t scales[2];  // K-formats: sc and mn of the two halves (16 inputs each); otherwise 1
  int32_t minima[2];
};

// `output` may lie in the padding of the last panel. REQUIRES: w.is_quantized().
UnpackedGroup UnpackGroup(const PackedMatrixView& w, int64_t output, int64_t group);

// The float32 values (arithmetic.md A1) of inputs [begin, end) of one output (which may lie in the
// padding): what DecodeRow gives for the stored row. out: [end - begin]. REQUIRES: of a quantised
// format, begin and end are multiples of 32.
void UnpackRow(const PackedMatrixView& w, int64_t output, int64_t begin, int64_t end, float* out);

}  // namespace octavo::quant
