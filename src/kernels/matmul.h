#pragma once

// Purpose:    y[num_rows, num_outputs] = x[num_rows, num_inputs] * W^T for weights in their packed
//             form.
// Threading:  pure; callers split the outputs by panels among threads.
// Invariants: arithmetic.md A2 (float32), A4 (int8) and A4b (int16); an element of y depends on its
//             row of x and its row of W only.

#include <cstddef>
#include <cstdint>

#include "quant/packed_matrix.h"

namespace octavo::kernels {

// How products with quantised weights are formed; others are always float32.
enum class Products : uint8_t { kFloat32, kInt8, kInt16 };

// Rows of quantised activations (arithmetic.md A3); all arrays are row-major and contiguous.
struct QuantizedRows {
  int8_t* codes;       // [num_rows, num_inputs]
  float* scales;       // [num_rows, num_inputs / 32]
  float* scaled_sums;  // [num_rows, num_inputs / 32]
  int16_t* half_sums;  // [num_rows, num_inputs / 16]
  int64_t num_inputs;  // a multiple of 32
};

// The same with 16-bit codes and one scale per row (A3b). The codes are there twice, for the two
// ways to multiply them: whole, and cut into bytes.
struct QuantizedRows16 {
  int16_t* codes;    // [num_rows, num_inputs]; of each four inputs the order is 0, 2, 1, 3
  uint8_t* bytes;    // [num_rows, num_inputs / 4, 2, 4]; of each four the high ones (signed), then
                     // the low ones (unsigned)
  float* scales;     // [num_rows]
  float* half_sums;  // [num_rows, num_inputs / 16]
  int64_t num_inputs;  // a multiple of 32
};

// A half-open range of panels (16 outputs each) of the matrix.
struct PanelRange {
  int64_t begin;
  int64_t end;
};

struct MatMulKernels {
  // REQUIRES: w.is_quantized(). `out` [num_rows, out_stride]: element (r, o) is written for every
  // output o < num_outputs of the panels in range, and no other.
  void (*int8)(const quant::PackedMatrixView& w, const QuantizedRows& x, int64_t num_rows,
               PanelRange range, float* out, int64_t out_stride);
  void (*int16)(const quant::PackedMatrixView& w, const QuantizedRows16& x, int64_t num_rows,
                PanelRange range, float* out, int64_t out_stride);
  // Any packed format. `x` [num_rows, x_stride].
  void (*float32)(const quant::PackedMatrixView& w, const float* x, int64_t x_stride,
                  int64_t num_rows, PanelRange range, float* out, int64_t out_stride);
  // Quantises elements [begin, end) of one row into row `row` of `out`. REQUIRES: begin and end are
  // multiples of 32; `x` points at the row's element 0.
  void (*quantize_row)(const float* x, int64_t begin, int64_t end, int64_t row,
                       const QuantizedRows& out);
  // Quantises a whole row (out.num_inputs elements) into row `row` of `out`.
  void (*quantize_row16)(const float* x, int64_t row, const QuantizedRows16& out);
};

}  // namespace octavo::kernels
