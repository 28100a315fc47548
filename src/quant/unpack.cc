#include "quant/unpack.h"

#include <cstring>

#include "base/check.h"
#include "quant/packed_format.h"
#include "tensor/half.h"

namespace octavo::quant {
namespace {

using tensor::DType;

float LoadHalf(const std::byte* bytes) {
  uint16_t bits;
  std::memcpy(&bits, bytes, 2);
  return tensor::HalfToFloat(bits);
}

int8_t CodeValue(const PackedFormat& format, uint8_t code) {
  if (format.has_table) return kIq4NlValues[code];
  return static_cast<int8_t>(code - format.code_offset);
}

// Code `k` of one group of output `lane`.
uint8_t CodeAt(int code_bits, const std::byte* group, int64_t lane, int k) {
  const int quad = k / 4;
  unsigned code = 0;
  int num_bits = 0;
  for (const int bits : kPlaneBits) {
    if ((code_bits & bits) == 0) continue;
    const auto byte = static_cast<unsigned>(group[quad % bits * kQuadBytes + 4 * lane + k % 4]);
    code |= ((byte >> (quad / bits * bits)) & ((1u << bits) - 1)) << num_bits;
    group += bits * kQuadBytes;
    num_bits += bits;
  }
  return static_cast<uint8_t>(code);
}

void UnpackCodes(const PackedFormat& format, const std::byte* group, int64_t lane, int8_t* codes) {
  for (int k = 0; k < kGroupInputs; ++k) {
    codes[k] = CodeValue(format, CodeAt(format.code_bits, group, lane, k));
  }
}

float FloatElement(const PackedMatrixView& w, int64_t output, int64_t input) {
  const std::byte* panel = w.data + static_cast<size_t>(output / kPanelOutputs) * w.panel_bytes;
  const int64_t index = input * kPanelOutputs + output % kPanelOutputs;
  if (w.dtype == DType::kF16) return LoadHalf(panel + 2 * index);
  uint32_t bits;
  if (w.dtype == DType::kBF16) {
    uint16_t high;
    std::memcpy(&high, panel + 2 * index, 2);
    bits = static_cast<uint32_t>(high) << 16;
  } else {
    std::memcpy(&bits, panel + 4 * index, 4);
  }
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

}  // namespace

UnpackedGroup UnpackGroup(const PackedMatrixView& w, int64_t output, int64_t group) {
  const PackedFormat format = PackedFormatOf(w.dtype);
  const int64_t lane = output % kPanelOutputs;
  const std::byte* panel = w.data + static_cast<size_t>(output / kPanelOutputs) * w.panel_bytes;
  const int64_t scale_index = format.is_k() ? group / kGroupsPerSuperblock : group;
  const std::byte* scales = panel + scale_index * format.scale_stride();

  UnpackedGroup out;
  out.d = LoadHalf(scales + 2 * lane);
  scales += 2 * kPanelOutputs;
  out.minimum = format.has_min ? LoadHalf(scales + 2 * lane) : 0.0f;
  if (format.has_min) scales += 2 * kPanelOutputs;
  for (int h = 0; h < 2; ++h) {
    out.scales[h] = 1;
    out.minima[h] = 1;
    if (!format.is_k()) continue;
    const int64_t num_sub_blocks = kSuperblockInputs / format.sub_block;
    const int64_t input = group % kGroupsPerSuperblock * kGroupInputs + 16 * h;
    const int64_t index = input / format.sub_block * kPanelOutputs + lane;
    out.scales[h] = static_cast<int8_t>(scales[index]);
    out.minima[h] =
        format.has_min ? static_cast<int8_t>(scales[num_sub_blocks * kPanelOutputs + index]) : 0;
  }
  const std::byte* codes = panel + format.scale_bytes(w.num_inputs) + group * format.group_bytes();
  UnpackCodes(format, codes, lane, out.codes);
  return out;
}

void UnpackRow(const PackedMatrixView& w, int64_t output, int64_t begin, int64_t end, float* out) {
  if (!w.is_quantized()) {
    for (int64_t k = begin; k < end; ++k) out[k - begin] = FloatElement(w, output, k);
    return;
  }
  OCTAVO_DCHECK(begin % kGroupInputs == 0 && end % kGroupInputs == 0, "whole groups");
  const PackedFormat format = PackedFormatOf(w.dtype);
  for (int64_t g = begin / kGroupInputs; g < end / kGroupInputs; ++g) {
    const UnpackedGroup group = UnpackGroup(w, output, g);
    for (int k = 0; k < kGroupInputs; ++k, ++out) {
      const int h = k / 16;
      // Exact products, then one rounding where there is a minimum.
      const float scaled =
          (group.d * static_cast<float>(group.scales[h])) * static_cast<float>(group.codes[k]);
      *out = scaled;
      if (!format.has_min) continue;
      const float minimum = group.minimum * static_cast<float>(group.minima[h]);
      *out = format.is_k() ? scaled - minimum : scaled + minimum;
    }
  }
}

}  // namespace octavo::quant
