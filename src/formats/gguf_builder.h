#pragma once

// Purpose:    writes small GGUF files in memory, for tests and for tools that make test models.
// Chained calls:
//               std::vector<std::byte> bytes = GgufBuilder().String("general.architecture",
//               "llama").Uint32("llama.block_count", 2)
//                                                  .Tensor("output_norm.weight", DType::kF32, {64},
//                                                  data).Build();
// Ownership:  copies what it is given.
// Threading:  one thread.
// Invariants: the file is valid if the caller gave unique keys and names and tensor data of the
// right size; a test that wants a
//             damaged file says so with the Raw calls or edits the bytes.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf_value.h"
#include "tensor/dtype.h"

namespace octavo::formats {

class GgufBuilder {
 public:
  explicit GgufBuilder(uint32_t version = 3) : version_(version) {}

  // --- Metadata, in the order of the calls ---
  GgufBuilder& Uint8(std::string_view key, uint8_t value);
  GgufBuilder& Int8(std::string_view key, int8_t value);
  GgufBuilder& Uint16(std::string_view key, uint16_t value);
  GgufBuilder& Int16(std::string_view key, int16_t value);
  GgufBuilder& Uint32(std::string_view key, uint32_t value);
  GgufBuilder& Int32(std::string_view key, int32_t value);
  GgufBuilder& Float32(std::string_view key, float value);
  GgufBuilder& Bool(std::string_view key, bool value);
  GgufBuilder& String(std::string_view key, std::string_view value);
  GgufBuilder& Uint64(std::string_view key, uint64_t value);
  GgufBuilder& Int64(std::string_view key, int64_t value);
  GgufBuilder& Float64(std::string_view key, double value);
  GgufBuilder& Strings(std::string_view key, std::span<const std::string> values);
  GgufBuilder& Floats(std::string_view key, std::span<const float> values);
  GgufBuilder& Int32s(std::string_view key, std::span<const int32_t> values);
  GgufBuilder& Uint32s(std::string_view key, std::span<const uint32_t> values);
  // Any type id and any bytes after it.
  GgufBuilder& RawValue(std::string_view key, uint32_t type, std::span<const std::byte> stored);

  // --- Tensors, in the order of the calls ---
  // dims[0] = columns (contiguous). Data is padded to the alignment; offsets follow.
  GgufBuilder& Tensor(std::string_view name, tensor::DType dtype, std::span<const int64_t> dims,
                      std::span<const std::byte> stored);
  GgufBuilder& Tensor(std::string_view name, tensor::DType dtype,
                      std::initializer_list<int64_t> dims, std::span<const std::byte> stored);
  // Float32 data.
  GgufBuilder& Tensor(std::string_view name, std::initializer_list<int64_t> dims,
                      std::span<const float> values);
  // Any description; `offset` absent = where the data lands.
  GgufBuilder& RawTensor(std::string_view name, uint32_t type_id, std::span<const uint64_t> dims,
                         std::span<const std::byte> stored,
                         std::optional<uint64_t> offset = std::nullopt);

  // Writes key general.alignment (u32) and uses it.
  GgufBuilder& Alignment(uint32_t bytes);

  // What the header says instead of the true counts.
  GgufBuilder& ClaimTensorCount(uint64_t count);
  GgufBuilder& ClaimKeyValueCount(uint64_t count);

  std::vector<std::byte> Build() const;

 private:
  GgufBuilder& Key(std::string_view key, GgufType type);

  uint32_t version_;
  uint32_t alignment_ = 32;
  uint64_t num_key_values_ = 0;
  uint64_t num_tensors_ = 0;
  std::optional<uint64_t> claimed_key_values_;
  std::optional<uint64_t> claimed_tensors_;
  std::vector<std::byte> key_values_;
  std::vector<std::byte> tensor_infos_;
  std::vector<std::byte> data_;
};

}  // namespace octavo::formats
