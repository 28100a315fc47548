// The law for products and activation quantisation (arithmetic.md A2 to A4b), in plain loops.

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

// Where input k of a group lies in QuantizedRows16's codes: even inputs of a quad before odd ones.
int PositionInQuads(int k) {
  constexpr int kPositions[4] = {0, 2, 1, 3};
  return k - k % 4 + kPositions[k % 4];
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

// One step of A4b's chain.
float AddGroup16(const PackedFormat& format, const UnpackedGroup& w, const QuantizedRows16& x,
                 int64_t row, int64_t g, float acc) {
  const int16_t* a = x.codes + row * x.num_inputs + g * kGroupInputs;
  const float* sums = x.half_sums + row * (x.num_inputs / 16) + 2 * g;
  int32_t isum[2] = {0, 0};
  for (int k = 0; k < 32; ++k) isum[k / 16] += w.codes[k] * a[PositionInQuads(k)];

  if (format.sub_block == 16) {
    float codes = static_cast<float>(isum[0]) * static_cast<float>(w.scales[0]);
    codes = std::fma(static_cast<float>(isum[1]), static_cast<float>(w.scales[1]), codes);
    acc = std::fma(codes, w.d, acc);
    if (!format.has_min) return acc;
    float minima = sums[0] * static_cast<float>(w.minima[0]);
    minima = std::fma(sums[1], static_cast<float>(w.minima[1]), minima);
    return std::fma(-minima, w.minimum, acc);
  }
  const float codes = static_cast<float>(isum[0] + isum[1]);
  const float sum = sums[0] + sums[1];
  if (!format.is_k()) {
    acc = std::fma(codes, w.d, acc);
    return format.has_min ? std::fma(sum, w.minimum, acc) : acc;
  }
  acc = std::fma(codes * static_cast<float>(w.scales[0]), w.d, acc);
  if (!format.has_min) return acc;
  return std::fma(-(sum * static_cast<float>(w.minima[0])), w.minimum, acc);
}

void Int16(const PackedMatrixView& w, const QuantizedRows16& x, int64_t num_rows, PanelRange range,
           float* out, int64_t out_stride) {
  const PackedFormat format = quant::PackedFormatOf(w.dtype);
  const OutputRange outputs = OutputsOf(w, range);
  for (int64_t o = outputs.begin; o < outputs.end; ++o) {
    for (int64_t row = 0; row < num_rows; ++row) out[row * out_stride + o] = 0.0f;
    for (int64_t g = 0; g < w.num_inputs / kGroupInputs; ++g) {
      const UnpackedGroup group = quant::UnpackGroup(w, o, g);
      for (int64_t row = 0; row < num_rows; ++row) {
        float& acc = out[row * out_stride + o];
        acc = AddGroup16(format, group, x, row, g, acc);
      }
    }
    for (int64_t row = 0; row < num_rows; ++row) out[row * out_stride + o] *= x.scales[row];
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

// The scale of some elements and the factor that they are multiplied by (A3, A3b).
struct GroupScale {
  float scale;
  float inverse;  // 0 where all codes are 0
};

GroupScale ScaleOf(const float* x, int64_t count, float largest_code) {
  uint32_t largest = 0;
  for (int64_t k = 0; k < count; ++k) {
    uint32_t bits;
    std::memcpy(&bits, x + k, 4);
    largest = std::max(largest, bits & 0x7fffffffu);
  }
  if (largest >= 0x7f800000u) return {std::numeric_limits<float>::quiet_NaN(), 0.0f};
  float amax;
  std::memcpy(&amax, &largest, 4);
  if (amax < 0x1p-100f) return {0.0f, 0.0f};
  return {amax / largest_code, largest_code / amax};
}

void QuantizeRow(const float* x, int64_t begin, int64_t end, int64_t row,
                 const QuantizedRows& out) {
  for (int64_t g = begin / kGroupInputs; g < end / kGroupInputs; ++g) {
    const float* values = x + g * kGroupInputs;
    const GroupScale scale = ScaleOf(values, kGroupInputs, 127.0f);
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

void QuantizeRow16(const float* x, int64_t row, const QuantizedRows16& out) {
  const GroupScale scale = ScaleOf(x, out.num_inputs, 32767.0f);
  out.scales[row] = scale.scale;
  for (int64_t half = 0; half < out.num_inputs / 16; ++half) {
    int16_t* codes = out.codes + row * out.num_inputs;
    int32_t sum = 0;
    for (int64_t k = half * 16; k < (half + 1) * 16; ++k) {
      const bool all_zero = scale.inverse == 0.0f;
      const int32_t code =
          all_zero ? 0 : static_cast<int32_t>(std::nearbyint(x[k] * scale.inverse));
      codes[k - k % 4 + PositionInQuads(static_cast<int>(k % 4))] = static_cast<int16_t>(code);
      uint8_t* quad = out.bytes + 2 * (row * out.num_inputs + k - k % 4);
      quad[k % 4] = static_cast<uint8_t>(code >> 8);
      quad[4 + k % 4] = static_cast<uint8_t>(code & 0xff);
      sum += code;
    }
    out.half_sums[row * (out.num_inputs / 16) + half] = static_cast<float>(sum);
  }
}

}  // namespace

MatMulKernels ReferenceMatMul() { return {Int8, Int16, Float32, QuantizeRow, QuantizeRow16}; }

OCTAVO_REFERENCE_END

}  // namespace octavo::kernels
