#include "bench/product_inputs.h"

#include <algorithm>
#include <cstring>
#include <random>

namespace octavo::bench {

MatrixRing::MatrixRing(tensor::DType dtype, quant::MatrixShape shape, size_t bytes)
    : first_(dtype, shape, quant::WeightKind::kUsual, 1) {
  const quant::PackedMatrixView& view = first_.view();
  matrix_bytes_ = view.panel_bytes * static_cast<size_t>(view.num_panels());
  count_ = std::max<size_t>(bytes / matrix_bytes_, 1);
  memory_ = base::AlignedBuffer::Allocate(count_ * matrix_bytes_);
  for (size_t i = 0; memory_ && i < count_; ++i) {
    std::memcpy(memory_.data() + i * matrix_bytes_, view.data, matrix_bytes_);
  }
}

quant::PackedMatrixView MatrixRing::At(size_t index) const {
  quant::PackedMatrixView view = first_.view();
  view.data = memory_.data() + index % count_ * matrix_bytes_;
  return view;
}

ActivationRows::ActivationRows(const kernels::MatMulKernels& matmul, int64_t num_rows,
                               int64_t num_inputs)
    : values_(static_cast<size_t>(num_rows * num_inputs)),
      codes_(values_.size()),
      scales_(values_.size() / 32),
      scaled_sums_(values_.size() / 32),
      half_sums_(values_.size() / 16),
      int8_{codes_.data(), scales_.data(), scaled_sums_.data(), half_sums_.data(), num_inputs},
      codes16_(values_.size()),
      bytes16_(2 * values_.size()),
      scales16_(static_cast<size_t>(num_rows)),
      half_sums16_(values_.size() / 16),
      int16_{codes16_.data(), bytes16_.data(), scales16_.data(), half_sums16_.data(), num_inputs} {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (float& value : values_) value = normal(random);
  for (int64_t row = 0; row < num_rows; ++row) {
    const float* x = values_.data() + row * num_inputs;
    matmul.quantize_row(x, 0, num_inputs, row, int8_);
    matmul.quantize_row16(x, row, int16_);
  }
}

}  // namespace octavo::bench
