#include "kvstore/kv_layout.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/checked_math.h"

namespace octavo::kvstore {
namespace {

constexpr int32_t kHeadDimMultiple = 8;
constexpr int32_t kMaxHeadDim = 256;

}  // namespace

int32_t BytesPerElement(kernels::KvDtype dtype) {
  switch (dtype) {
    case kernels::KvDtype::kFloat32:
      return 4;
    case kernels::KvDtype::kFloat16:
    case kernels::KvDtype::kBFloat16:
      return 2;
    case kernels::KvDtype::kInt8:
      return 1;
  }
  OCTAVO_CHECK(false, "not a KvDtype");
  return 0;
}

int32_t ScaleBytes(kernels::KvDtype dtype) { return dtype == kernels::KvDtype::kInt8 ? 2 : 0; }

std::string_view KvDtypeName(kernels::KvDtype dtype) {
  switch (dtype) {
    case kernels::KvDtype::kFloat32:
      return "float32";
    case kernels::KvDtype::kFloat16:
      return "float16";
    case kernels::KvDtype::kBFloat16:
      return "bfloat16";
    case kernels::KvDtype::kInt8:
      return "int8";
  }
  OCTAVO_CHECK(false, "not a KvDtype");
  return {};
}

Result<KvLayout> KvLayout::Create(kvcache::KvCacheSpec spec, kernels::KvDtype dtype,
                                  int64_t num_blocks) {
  spec.bytes_per_element = BytesPerElement(dtype);
  spec.scale_bytes = ScaleBytes(dtype);
  if (Status s = spec.Validate(); !s.ok()) return s;
  if (spec.head_dim % kHeadDimMultiple != 0 || spec.head_dim > kMaxHeadDim) {
    return Status::Unimplemented(
        fmt::format("KV cache: head_dim is {}, supported are multiples of {} up to {}",
                    spec.head_dim, kHeadDimMultiple, kMaxHeadDim));
  }
  // Block ids are 32 bits wide, and the highest one ends the pool's lists.
  constexpr int64_t kMaxBlocks = 0x7ffffffe;  // the prefix tree's links have 31 bits
  if (num_blocks < 1 || num_blocks > kMaxBlocks) {
    return Status::InvalidArgument(
        fmt::format("KV cache: {} blocks, possible are 1 to {}", num_blocks, kMaxBlocks));
  }
  const auto arena_bytes = base::CheckedMultiply(*spec.BytesPerBlock(), num_blocks);
  if (!arena_bytes) {
    return Status::ResourceExhausted(
        fmt::format("KV cache: {} blocks of {} bytes exceed 2^63 - 1 bytes", num_blocks,
                    *spec.BytesPerBlock()));
  }

  // The products below are parts of arena_bytes, so they do not overflow. K of one head in one
  // block is at least 8 tokens x 8 elements x 1 byte, and always a multiple of 64.
  KvLayout layout;
  layout.spec = spec;
  layout.dtype = dtype;
  layout.num_blocks = num_blocks;
  layout.v_offset_bytes = static_cast<size_t>(spec.block_size_tokens) *
                          static_cast<size_t>(spec.head_dim) *
                          static_cast<size_t>(spec.bytes_per_element);
  layout.head_stride_bytes = static_cast<size_t>(*spec.HeadBytesPerBlock());
  layout.layer_stride_bytes = layout.head_stride_bytes * static_cast<size_t>(spec.num_kv_heads);
  layout.block_stride_bytes = static_cast<size_t>(*spec.BytesPerBlock());
  layout.arena_bytes = static_cast<size_t>(*arena_bytes);
  return layout;
}

}  // namespace octavo::kvstore
