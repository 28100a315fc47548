#include "quant/decode.h"

#include <cstring>

#include "base/check.h"
#include "quant/decode_blocks.h"
#include "tensor/half.h"

namespace octavo::quant {
namespace {

using tensor::DType;

uint16_t LoadBits16(const std::byte* stored) {
  return static_cast<uint16_t>(ByteAt(stored, 0) | ByteAt(stored, 1) << 8);
}

template <auto DecodeBlock>
void DecodeBlocks(const tensor::DTypeTraits& traits, const std::byte* stored, size_t num_elements,
                  float* out) {
  OCTAVO_CHECK(num_elements % traits.block_elements == 0, "a row is a whole number of blocks");
  for (size_t i = 0; i < num_elements; i += traits.block_elements) {
    DecodeBlock(stored, out + i);
    stored += traits.block_bytes;
  }
}

}  // namespace

void DecodeRow(DType dtype, const std::byte* stored, size_t num_elements, float* out) {
  const tensor::DTypeTraits& traits = tensor::Traits(dtype);
  switch (dtype) {
    case DType::kF32:
      if (num_elements > 0) std::memcpy(out, stored, num_elements * sizeof(float));
      return;
    case DType::kF16:
      for (size_t i = 0; i < num_elements; ++i) {
        out[i] = tensor::HalfToFloat(LoadBits16(stored + 2 * i));
      }
      return;
    case DType::kBF16:
      for (size_t i = 0; i < num_elements; ++i) {
        out[i] = tensor::BFloat16ToFloat(LoadBits16(stored + 2 * i));
      }
      return;
    case DType::kQ4_0:
      return DecodeBlocks<DecodeBlockQ4_0>(traits, stored, num_elements, out);
    case DType::kQ4_1:
      return DecodeBlocks<DecodeBlockQ4_1>(traits, stored, num_elements, out);
    case DType::kQ5_0:
      return DecodeBlocks<DecodeBlockQ5_0>(traits, stored, num_elements, out);
    case DType::kQ5_1:
      return DecodeBlocks<DecodeBlockQ5_1>(traits, stored, num_elements, out);
    case DType::kQ8_0:
      return DecodeBlocks<DecodeBlockQ8_0>(traits, stored, num_elements, out);
    case DType::kQ2_K:
      return DecodeBlocks<DecodeBlockQ2_K>(traits, stored, num_elements, out);
    case DType::kQ3_K:
      return DecodeBlocks<DecodeBlockQ3_K>(traits, stored, num_elements, out);
    case DType::kQ4_K:
      return DecodeBlocks<DecodeBlockQ4_K>(traits, stored, num_elements, out);
    case DType::kQ5_K:
      return DecodeBlocks<DecodeBlockQ5_K>(traits, stored, num_elements, out);
    case DType::kQ6_K:
      return DecodeBlocks<DecodeBlockQ6_K>(traits, stored, num_elements, out);
    case DType::kIQ4_NL:
      return DecodeBlocks<DecodeBlockIQ4_NL>(traits, stored, num_elements, out);
  }
  OCTAVO_CHECK(false, "a DType without a decoder");
}

}  // namespace octavo::quant
