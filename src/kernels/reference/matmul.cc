// The law for products and activation quantisation (arithmetic.md A2 to A4), in plain loops.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/kernel_sets.h"
#include "kernels/reference/target.h"
#include "quant/packed_format.h"
#include "quant/unpack.h"

namespace octavo::kernels {

OCTAVO_REFERENCE_BEGIN

namespace {

using quant::kGroupInputs;
using quant::kPanelOutputs;
using quant::PackedFormat;
using quant::PackedMatrixView;
using quant::UnpackedGroup;

// The outputs of the panels in range.
struct OutputRange {
  int64_t begin;
  int64_t end;
};

OutputRange OutputsOf(const PackedMatrixView& w, PanelRange range) {
  return {range.begin * kPanelOutputs, std::min(w.num_outputs, range.end * kPanelOutputs)};
}

// One step of A4's chain: group `g` of row `row` and of one output, whose parts are `w`.
float AddGroup(const PackedFormat& format, const UnpackedGroup& w, const QuantizedRows& x,
               int64_t row, int64_t g, float acc) {
  const int8_t* a = x.codes + row * x.num_inputs + g * kGroupInputs;
  const int16_t* sums = x.half_sums + row * (x.num_inputs / 16) + 2 * g;
  const int64_t group = row * (x.num_inputs / kGroupInputs) + g;
  const float da = x.scales[group];

  int32_t isum[2] = {0, 0};
  for (int k = 0; k < 16; ++k) {
    isum[0] += w.codes[k] * a[k];
    isum[1] += w.codes[k + 16] * a[k + 16];
  }
  if (!format.is_k()) {
    acc = std::fma(static_cast<float>(isum[0] + isum[1]), w.d * da, acc);
    if (format.has_min) acc = std::fma(w.minimum, x.scaled_sums[group], acc);
    return acc;
  }
  const int32_t scaled = w.scales[0] * isum[0] + w.scales[1] * isum[1];
  acc = std::fma(static_cast<float>(scaled), w.d * da, acc);
  if (format.has_min) {
    const int32_t minima = w.minima[0] * sums[0] + w.minima[1] * sums[1];
    acc = std::fma(-static_cast<float>(minima), w.minimum * da, acc);
  }
  return acc;
}

void Int8(const PackedMatrixView& w, const QuantizedRows& x, int64_t num_rows, PanelRange range,
          float* out, int64_t out_stride) {
  const PackedFormat format = quant::PackedFormatOf(w.dtype);
  const OutputRange outputs = OutputsOf(w, range);
  for (int64_t o = outputs.begin; o < outputs.end; ++o) {
    for (int64_t row = 0; row < num_rows; ++row) out[row * out_stride + o] = 0.0f;
    for (int64_t g = 0; g < w.num_inputs / kGroupInputs; ++g) {
      const UnpackedGroup group = quant::UnpackGroup(w, o, g);
      for (int64_t row = 0; row < num_rows; ++row) {
        float& acc = out[row * out_stride + o];
        acc = AddGroup(format, group, x, row, g, acc);
      }
    }
  }
}

void Float32(const PackedMatrixView& w, const float* x, int64_t x_stride, int64_t num_rows,
             PanelRange range, float* out, int64_t out_stride) {
  constexpr int64_t kStep = 256;  // inputs decoded at a time
  const OutputRange outputs = OutputsOf(w, range);
  for (int64_t o = outputs.begin; o < outputs.end; ++o) {
    for (int64_t row = 0; row < num_rows; ++row) out[row * out_stride + o] = 0.0f;
    for (int64_t begin = 0; begin < w.num_inputs; begin += kStep) {
      const int64_t end = std::min(begin + kStep, w.num_inputs);
      float values[kStep];
      quant::UnpackRow(w, o, begin, end, values);
      for (int64_t row = 0; row < num_rows; ++row) {
        float acc = out[row * out_stride + o];
        for (int64_t k = begin; k < end; ++k) {
          acc = std::fma(x[row * x_stride + k], values[k - begin], acc);
        }
        out[row * out_stride + o] = acc;
      }
    }
  }
}

// Scale of a group and the factor that its elements are multiplied by (A3).
struct GroupScale {
  float scale;
  float inverse;  // 0 where all codes are 0
};

GroupScale ScaleOf(const float* x) {
  uint32_t largest = 0;
  for (int k = 0; k < kGroupInputs; ++k) {
    uint32_t bits;
    std::memcpy(&bits, x + k, 4);
    largest = std::max(largest, bits & 0x7fffffffu);
  }
  if (largest >= 0x7f800000u) return {std::numeric_limits<float>::quiet_NaN(), 0.0f};
  float amax;
  std::memcpy(&amax, &largest, 4);
  if (amax < 0x1p-100f) return {0.0f, 0.0f};
  return {amax / 127.0f, 127.0f / amax};
}

void QuantizeRow(const float* x, int64_t begin, int64_t end, int64_t row,
                 const QuantizedRows& out) {
  for (int64_t g = begin / kGroupInputs; g < end / kGroupInputs; ++g) {
    const float* values = x + g * kGroupInputs;
    const GroupScale scale = ScaleOf(values);
    int8_t* codes = out.codes + row * out.num_inputs + g * kGroupInputs;
    int32_t sums[2] = {0, 0};
    for (int k = 0; k < kGroupInputs; ++k) {
      const bool all_zero = scale.inverse == 0.0f;
      const int32_t code =
          all_zero ? 0 : static_cast<int32_t>(std::nearbyint(values[k] * scale.inverse));
      codes[k] = static_cast<int8_t>(code);
      sums[k / 16] += code;
    }
    const int64_t group = row * (out.num_inputs / kGroupInputs) + g;
    out.half_sums[2 * group] = static_cast<int16_t>(sums[0]);
    out.half_sums[2 * group + 1] = static_cast<int16_t>(sums[1]);
    out.scales[group] = scale.scale;
    out.scaled_sums[group] = scale.scale * static_cast<float>(sums[0] + sums[1]);
  }
}

}  // namespace

MatMulKernels ReferenceMatMul() { return {Int8, Float32, QuantizeRow}; }

OCTAVO_REFERENCE_END

}  // namespace octavo::kernels
