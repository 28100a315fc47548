// Compares the NEON products with the reference, bit for bit; built and run by tools/check_neon.sh.

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <utility>
#include <vector>

#include "kernels/kernel_sets.h"
#include "quant/random_matrix.h"

namespace octavo {
namespace {

using kernels::MatMulKernels;
using kernels::Products;
using quant::RandomMatrix;

int failures = 0;

void Compare(const char* what, tensor::DType dtype, int64_t rows, const std::vector<float>& a,
             const std::vector<float>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    const bool same = std::bit_cast<uint32_t>(a[i]) == std::bit_cast<uint32_t>(b[i]) ||
                      (std::isnan(a[i]) && std::isnan(b[i]));
    if (same) continue;
    const std::string_view name = tensor::Traits(dtype).name;
    std::printf("%s %.*s rows %d element %zu: %a, not %a\n", what, static_cast<int>(name.size()),
                name.data(), static_cast<int>(rows), i, static_cast<double>(b[i]),
                static_cast<double>(a[i]));
    ++failures;
    return;
  }
}

struct Rows {
  std::vector<float> values;
  std::vector<int8_t> codes;
  std::vector<float> scales;
  std::vector<float> scaled_sums;
  std::vector<int16_t> half_sums;
  kernels::QuantizedRows quantized;
  std::vector<int16_t> codes16;
  std::vector<float> scales16;
  std::vector<float> half_sums16;
  kernels::QuantizedRows16 quantized16;

  Rows(const MatMulKernels& kernels, int64_t num_rows, int64_t num_inputs)
      : values(static_cast<size_t>(num_rows * num_inputs)),
        codes(values.size()),
        scales(values.size() / 32),
        scaled_sums(values.size() / 32),
        half_sums(values.size() / 16),
        codes16(values.size()),
        scales16(static_cast<size_t>(num_rows)),
        half_sums16(values.size() / 16) {
    std::mt19937 random(11);
    std::normal_distribution<float> normal;
    for (float& value : values) value = normal(random);
    values[5] = INFINITY;
    quantized = {codes.data(), scales.data(), scaled_sums.data(), half_sums.data(), num_inputs};
    quantized16 = {codes16.data(), scales16.data(), half_sums16.data(), num_inputs};
    for (int64_t row = 0; row < num_rows; ++row) {
      const float* x = values.data() + row * num_inputs;
      kernels.quantize_row(x, 0, num_inputs, row, quantized);
      kernels.quantize_row16(x, row, quantized16);
    }
  }
};

std::vector<float> Multiply(const MatMulKernels& kernels, const quant::PackedMatrixView& w, Rows& x,
                            int64_t num_rows, Products products) {
  std::vector<float> out(static_cast<size_t>(num_rows * w.num_outputs), -1.0f);
  const kernels::PanelRange all = {0, w.num_panels()};
  if (products == Products::kInt8) {
    kernels.int8(w, x.quantized, num_rows, all, out.data(), w.num_outputs);
  } else if (products == Products::kInt16) {
    kernels.int16(w, x.quantized16, num_rows, all, out.data(), w.num_outputs);
  } else {
    kernels.float32(w, x.values.data(), w.num_inputs, num_rows, all, out.data(), w.num_outputs);
  }
  return out;
}

void CheckFormat(tensor::DType dtype, quant::WeightKind kind) {
  const int64_t num_inputs = 512;
  const MatMulKernels reference = kernels::ReferenceMatMul();
  const MatMulKernels neon = kernels::NeonMatMul();
  const RandomMatrix matrix(dtype, {37, num_inputs}, kind, 12);
  for (const int64_t rows : {1, 2, 3, 4, 5, 13, 33}) {
    Rows x(reference, rows, num_inputs);
    Rows y(neon, rows, num_inputs);
    if (x.codes != y.codes || x.half_sums != y.half_sums || x.codes16 != y.codes16) ++failures;
    Compare("scales", dtype, rows, x.scales, y.scales);
    Compare("scaled sums", dtype, rows, x.scaled_sums, y.scaled_sums);
    Compare("scales of rows", dtype, rows, x.scales16, y.scales16);
    Compare("sums of halves", dtype, rows, x.half_sums16, y.half_sums16);
    for (const auto& [products, name] : {std::pair{Products::kFloat32, "float32"},
                                         {Products::kInt8, "int8"},
                                         {Products::kInt16, "int16"}}) {
      if (products != Products::kFloat32 && !matrix.view().is_quantized()) continue;
      Compare(name, dtype, rows, Multiply(reference, matrix.view(), x, rows, products),
              Multiply(neon, matrix.view(), x, rows, products));
    }
  }
}

}  // namespace
}  // namespace octavo

int main() {
  for (const octavo::tensor::DType dtype : octavo::quant::kAllFormats) {
    octavo::CheckFormat(dtype, octavo::quant::WeightKind::kUsual);
    octavo::CheckFormat(dtype, octavo::quant::WeightKind::kAnyBits);
    octavo::CheckFormat(dtype, octavo::quant::WeightKind::kExtremes);
  }
  std::printf("NEON products: %d differences from the reference\n", octavo::failures);
  return octavo::failures == 0 ? 0 : 1;
}
