#pragma once

// Purpose:    the storage formats of tensors: GGUF's type ids, and each format's block geometry.
// Ownership:  plain data.
// Threading:  any.
// Invariants: the enumerators' values are the ids on disk; a row's length is a multiple of
//             block_elements.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace octavo::tensor {

enum class DType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ4_NL = 20,
  kBF16 = 30,
};

struct DTypeTraits {
  std::string_view name;    // "Q4_1"
  uint32_t block_elements;  // elements per block
  uint32_t block_bytes;     // bytes per block
};

// The format with this id on disk, or nothing if octavo does not read it.
std::optional<DType> DTypeFromId(uint32_t id);

const DTypeTraits& Traits(DType dtype);

// Bytes of `num_elements` elements. REQUIRES: a multiple of block_elements, and no overflow
// (checked by the reader).
size_t StoredBytes(DType dtype, size_t num_elements);

}  // namespace octavo::tensor
