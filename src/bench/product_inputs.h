#pragma once

// Purpose:    what a matrix product is measured on: weights that take as much memory as a model's,
//             and rows of activations in every form.
// Ownership:  owns its memory.
// Threading:  construct on one thread; then read-only.
// Invariants: the same arguments give the same values.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/aligned_memory.h"
#include "kernels/matmul.h"
#include "quant/random_matrix.h"

namespace octavo::bench {

// Copies of one random packed matrix, one after another.
class MatrixRing {
 public:
  // As many copies as `bytes` hold, at least one.
  MatrixRing(tensor::DType dtype, quant::MatrixShape shape, size_t bytes);

  bool ok() const { return static_cast<bool>(memory_); }  // whether there was memory for them
  size_t matrix_bytes() const { return matrix_bytes_; }
  // Copy `index` modulo their number.
  quant::PackedMatrixView At(size_t index) const;

 private:
  quant::RandomMatrix first_;
  size_t matrix_bytes_;
  size_t count_;
  base::AlignedBuffer memory_;
};

// Rows of normal values, as they are and quantised by `matmul`.
class ActivationRows {
 public:
  ActivationRows(const kernels::MatMulKernels& matmul, int64_t num_rows, int64_t num_inputs);
  ActivationRows(const ActivationRows&) = delete;
  ActivationRows& operator=(const ActivationRows&) = delete;

  const float* values() const { return values_.data(); }
  const kernels::QuantizedRows& int8() const { return int8_; }
  const kernels::QuantizedRows16& int16() const { return int16_; }

 private:
  std::vector<float> values_;
  std::vector<int8_t> codes_;
  std::vector<float> scales_;
  std::vector<float> scaled_sums_;
  std::vector<int16_t> half_sums_;
  kernels::QuantizedRows int8_;
  std::vector<int16_t> codes16_;
  std::vector<uint8_t> bytes16_;
  std::vector<float> scales16_;
  std::vector<float> half_sums16_;
  kernels::QuantizedRows16 int16_;
};

}  // namespace octavo::bench
