#include "quant/packed_matrix.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "quant/pack_blocks.h"
#include "quant/packed_format.h"

namespace octavo::quant {
namespace {

using tensor::DType;

bool IsFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

size_t ElementBytes(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }

// The rows of one panel in the stored matrix, and where the panel goes.
struct PanelJob {
  DType dtype;
  int64_t num_inputs;
  int64_t num_rows;  // outputs that exist, 1 to 16
  size_t row_bytes;
  const std::byte* rows;  // [num_rows, row_bytes]
  std::byte* panel;       // zeroed where rows are missing
};

template <typename Element>
void PackFloats(const PanelJob& job) {
  for (int64_t row = 0; row < job.num_rows; ++row) {
    const std::byte* source = job.rows + static_cast<size_t>(row) * job.row_bytes;
    std::byte* target = job.panel + static_cast<size_t>(row) * sizeof(Element);
    for (int64_t k = 0; k < job.num_inputs; ++k) {
      std::memcpy(target, source, sizeof(Element));
      source += sizeof(Element);
      target += sizeof(Element) * kPanelOutputs;
    }
  }
}

void StoreHalf(std::byte* target, int64_t output, uint16_t bits) {
  std::memcpy(target + 2 * output, &bits, 2);
}

// Stores the 32 codes of one group of one output into the group's vectors.
void StoreCodes(int code_bits, const uint8_t* codes, std::byte* group, int64_t output) {
  uint32_t quads[8];
  std::memcpy(quads, codes, sizeof quads);
  int stored_bits = 0;
  for (const int bits : kPlaneBits) {
    if ((code_bits & bits) == 0) continue;
    const uint32_t mask = ((1u << bits) - 1) * 0x01010101u;
    for (int vector = 0; vector < bits; ++vector) {
      uint32_t word = 0;
      for (int t = vector; t < 8; t += bits) {
        word |= ((quads[t] >> stored_bits) & mask) << (t / bits * bits);
      }
      std::memcpy(group + vector * kQuadBytes + 4 * output, &word, 4);
    }
    group += bits * kQuadBytes;
    stored_bits += bits;
  }
}

// Q4_0, Q4_1, IQ4_NL and Q8_0 are stored quad by quad as they are packed: only words move.
template <DType kType>
void PackWords(const PanelJob& job) {
  constexpr PackedFormat kFormat = PackedFormatOf(kType);
  constexpr int kWords = kFormat.code_bits;  // 4 or 8 quads
  constexpr size_t kHeader = kFormat.has_min ? 4 : 2;
  constexpr uint32_t kFlip = kFormat.code_bits == 8 ? 0x80808080u : 0;
  const int64_t num_groups = job.num_inputs / kGroupInputs;
  for (int64_t g = 0; g < num_groups; ++g) {
    std::byte* scales = job.panel + g * kFormat.scale_stride();
    std::byte* group = job.panel + kFormat.scale_bytes(job.num_inputs) + g * kFormat.group_bytes();
    const std::byte* block = job.rows + static_cast<size_t>(g) * (kHeader + 4 * kWords);
    for (int64_t row = 0; row < job.num_rows; ++row, block += job.row_bytes) {
      std::memcpy(scales + 2 * row, block, 2);
      if constexpr (kFormat.has_min) {
        std::memcpy(scales + 2 * (kPanelOutputs + row), block + 2, 2);
      }
#pragma GCC unroll 8
      for (int t = 0; t < kWords; ++t) {
        uint32_t word;
        std::memcpy(&word, block + kHeader + 4 * t, 4);
        word ^= kFlip;
        std::memcpy(group + t * kQuadBytes + 4 * row, &word, 4);
      }
    }
  }
}

// One block of one output, through its parts.
void StoreBlock(const PackedFormat& format, const BlockParts& parts, int64_t num_groups,
                std::byte* scales, std::byte* codes, int64_t output) {
  StoreHalf(scales, output, parts.d);
  scales += 2 * kPanelOutputs;
  if (format.has_min) {
    StoreHalf(scales, output, parts.minimum);
    scales += 2 * kPanelOutputs;
  }
  const int64_t num_sub_blocks = format.is_k() ? kSuperblockInputs / format.sub_block : 0;
  for (int64_t i = 0; i < num_sub_blocks; ++i) {
    std::memcpy(scales + i * kPanelOutputs + output, &parts.scales[i], 1);
    if (format.has_min) {
      std::memcpy(scales + (num_sub_blocks + i) * kPanelOutputs + output, &parts.minima[i], 1);
    }
  }
  for (int64_t g = 0; g < num_groups; ++g) {
    StoreCodes(format.code_bits, parts.codes + g * kGroupInputs, codes + g * format.group_bytes(),
               output);
  }
}

void PackSplit(const PanelJob& job) {
  const PackedFormat format = PackedFormatOf(job.dtype);
  const tensor::DTypeTraits& traits = tensor::Traits(job.dtype);
  const int64_t num_blocks = job.num_inputs / traits.block_elements;
  const int64_t groups_per_block = traits.block_elements / kGroupInputs;
  std::byte* codes = job.panel + format.scale_bytes(job.num_inputs);
  for (int64_t b = 0; b < num_blocks; ++b) {
    const std::byte* block = job.rows + static_cast<size_t>(b) * traits.block_bytes;
    for (int64_t row = 0; row < job.num_rows; ++row, block += job.row_bytes) {
      BlockParts parts;
      SplitBlock(job.dtype, block, &parts);
      StoreBlock(format, parts, groups_per_block, job.panel + b * format.scale_stride(),
                 codes + b * groups_per_block * format.group_bytes(), row);
    }
  }
}

void PackPanel(const PanelJob& job) {
  switch (job.dtype) {
    case DType::kF32:
      return PackFloats<uint32_t>(job);
    case DType::kF16:
    case DType::kBF16:
      return PackFloats<uint16_t>(job);
    case DType::kQ4_0:
      return PackWords<DType::kQ4_0>(job);
    case DType::kQ4_1:
      return PackWords<DType::kQ4_1>(job);
    case DType::kIQ4_NL:
      return PackWords<DType::kIQ4_NL>(job);
    case DType::kQ8_0:
      return PackWords<DType::kQ8_0>(job);
    default:
      return PackSplit(job);
  }
}

// Zeroes what a full panel does not write: up to 62 bytes before the codes, or at the end of a
// panel of floats.
void ZeroPadding(const PanelJob& job, size_t panel_bytes) {
  const size_t codes =
      IsFloat(job.dtype)
          ? panel_bytes
          : static_cast<size_t>(PackedFormatOf(job.dtype).scale_bytes(job.num_inputs));
  std::memset(job.panel + codes - 64, 0, 64);
}

}  // namespace

size_t PackedPanelBytes(DType dtype, int64_t num_inputs) {
  OCTAVO_DCHECK(num_inputs % tensor::Traits(dtype).block_elements == 0, "whole blocks");
  if (IsFloat(dtype)) {
    const size_t bytes = static_cast<size_t>(num_inputs * kPanelOutputs) * ElementBytes(dtype);
    return (bytes + 63) / 64 * 64;
  }
  const PackedFormat format = PackedFormatOf(dtype);
  return static_cast<size_t>(format.scale_bytes(num_inputs) +
                             num_inputs / kGroupInputs * format.group_bytes());
}

void PackPanels(DType dtype, int64_t num_outputs, int64_t num_inputs, const std::byte* stored,
                std::byte* packed, int64_t panel_begin, int64_t panel_end) {
  const size_t panel_bytes = PackedPanelBytes(dtype, num_inputs);
  PanelJob job;
  job.dtype = dtype;
  job.num_inputs = num_inputs;
  job.row_bytes = tensor::StoredBytes(dtype, static_cast<size_t>(num_inputs));
  for (int64_t panel = panel_begin; panel < panel_end; ++panel) {
    const int64_t first_output = panel * kPanelOutputs;
    job.num_rows = std::min(kPanelOutputs, num_outputs - first_output);
    job.rows = stored + static_cast<size_t>(first_output) * job.row_bytes;
    job.panel = packed + static_cast<size_t>(panel) * panel_bytes;
    if (job.num_rows < kPanelOutputs) {
      std::memset(job.panel, 0, panel_bytes);
    } else {
      ZeroPadding(job, panel_bytes);
    }
    PackPanel(job);
  }
}

}  // namespace octavo::quant
