#include "formats/gguf_builder.h"

#include <type_traits>

#include "base/check.h"

namespace octavo::formats {
namespace {

template <typename T>
void Append(T value, std::vector<std::byte>* out) {
  static_assert(std::is_trivially_copyable_v<T>);
  const std::byte* bytes = reinterpret_cast<const std::byte*>(&value);
  out->insert(out->end(), bytes, bytes + sizeof(value));
}

void AppendText(std::string_view text, std::vector<std::byte>* out) {
  Append(uint64_t{text.size()}, out);
  const std::byte* bytes = reinterpret_cast<const std::byte*>(text.data());
  out->insert(out->end(), bytes, bytes + text.size());
}

void Pad(uint32_t alignment, std::vector<std::byte>* out) {
  while (out->size() % alignment != 0) out->push_back(std::byte{0});
}

template <typename T>
void AppendArray(GgufType element_type, std::span<const T> values, std::vector<std::byte>* out) {
  Append(static_cast<uint32_t>(element_type), out);
  Append(uint64_t{values.size()}, out);
  for (const T value : values) Append(value, out);
}

}  // namespace

GgufBuilder& GgufBuilder::Key(std::string_view key, GgufType type) {
  ++num_key_values_;
  AppendText(key, &key_values_);
  Append(static_cast<uint32_t>(type), &key_values_);
  return *this;
}

GgufBuilder& GgufBuilder::Uint8(std::string_view key, uint8_t value) {
  Key(key, GgufType::kUint8);
  Append(value, &key_values_);
  return *this;
}

GgufBuilder& GgufBuilder::Int8(std::string_view key, int8_t value) {
  Key(key, GgufType::kInt8);
  Append(value, &key_values_);
  return *this;
}

GgufBuilder& GgufBuilder::Uint16(std::string_view key, uint16_t value) {
  Key(key, GgufType::kUint16);
  Append(value, &key_values_);
  return *this;
}

GgufBuilder& GgufBuilder::Int16(std::string_view key, int16_t value) {
  Key(key, GgufType::kInt16);
  Append(value, &key_values_);
  return *this;
}

GgufBuilder& GgufBuilder::Uint32(std::string_view key, uint32_t value) {
  Key(key, GgufType::kUint32);
  Append(value, &key_values_);
  return *this;
}

GgufBuilder& GgufBuilder::Int32(std::string_view key, int32_t value) {
  Key(key, GgufType::kInt32);
  Append(value, &key_values_);
  return *this;
}

GgufBuilder& GgufBuilder::Float32(std::string_view key, float value) {
  Key(key, GgufType::kFloat32);
  Append(value, &key_values_);
  return *this;
}

GgufBuilder& GgufBuilder::Bool(std::string_view key, bool value) {
  Key(key, GgufType::kBool);
  Append(static_cast<uint8_t>(value ? 1 : 0), &key_values_);
  return *this;
}

GgufBuilder& GgufBuilder::String(std::string_view key, std::string_view value) {
  Key(key, GgufType::kString);
  AppendText(value, &key_values_);
  return *this;
}

GgufBuilder& GgufBuilder::Uint64(std::string_view key, uint64_t value) {
  Key(key, GgufType::kUint64);
  Append(value, &key_values_);
  return *this;
}

GgufBuilder& GgufBuilder::Int64(std::string_view key, int64_t value) {
  Key(key, GgufType::kInt64);
  Append(value, &key_values_);
  return *this;
}

GgufBuilder& GgufBuilder::Float64(std::string_view key, double value) {
  Key(key, GgufType::kFloat64);
  Append(value, &key_values_);
  return *this;
}

GgufBuilder& GgufBuilder::Strings(std::string_view key, std::span<const std::string> values) {
  Key(key, GgufType::kArray);
  Append(static_cast<uint32_t>(GgufType::kString), &key_values_);
  Append(uint64_t{values.size()}, &key_values_);
  for (const std::string& value : values) AppendText(value, &key_values_);
  return *this;
}

GgufBuilder& GgufBuilder::Floats(std::string_view key, std::span<const float> values) {
  Key(key, GgufType::kArray);
  AppendArray(GgufType::kFloat32, values, &key_values_);
  return *this;
}

GgufBuilder& GgufBuilder::Int32s(std::string_view key, std::span<const int32_t> values) {
  Key(key, GgufType::kArray);
  AppendArray(GgufType::kInt32, values, &key_values_);
  return *this;
}

GgufBuilder& GgufBuilder::Uint32s(std::string_view key, std::span<const uint32_t> values) {
  Key(key, GgufType::kArray);
  AppendArray(GgufType::kUint32, values, &key_values_);
  return *this;
}

GgufBuilder& GgufBuilder::RawValue(std::string_view key, uint32_t type,
                                   std::span<const std::byte> stored) {
  Key(key, static_cast<GgufType>(type));
  key_values_.insert(key_values_.end(), stored.begin(), stored.end());
  return *this;
}

GgufBuilder& GgufBuilder::Alignment(uint32_t bytes) {
  OCTAVO_CHECK(num_tensors_ == 0 && bytes > 0, "the alignment comes before the tensors");
  alignment_ = bytes;
  return Uint32("general.alignment", bytes);
}

GgufBuilder& GgufBuilder::Tensor(std::string_view name, tensor::DType dtype,
                                 std::span<const int64_t> dims, std::span<const std::byte> stored) {
  const std::vector<uint64_t> stored_dims(dims.begin(), dims.end());
  return RawTensor(name, static_cast<uint32_t>(dtype), stored_dims, stored);
}

GgufBuilder& GgufBuilder::Tensor(std::string_view name, tensor::DType dtype,
                                 std::initializer_list<int64_t> dims,
                                 std::span<const std::byte> stored) {
  return Tensor(name, dtype, std::span<const int64_t>(dims.begin(), dims.size()), stored);
}

GgufBuilder& GgufBuilder::Tensor(std::string_view name, std::initializer_list<int64_t> dims,
                                 std::span<const float> values) {
  return Tensor(name, tensor::DType::kF32, dims, std::as_bytes(values));
}

GgufBuilder& GgufBuilder::RawTensor(std::string_view name, uint32_t type_id,
                                    std::span<const uint64_t> dims,
                                    std::span<const std::byte> stored,
                                    std::optional<uint64_t> offset) {
  ++num_tensors_;
  Pad(alignment_, &data_);
  AppendText(name, &tensor_infos_);
  Append(static_cast<uint32_t>(dims.size()), &tensor_infos_);
  for (const uint64_t dim : dims) Append(dim, &tensor_infos_);
  Append(type_id, &tensor_infos_);
  Append(offset.value_or(data_.size()), &tensor_infos_);
  data_.insert(data_.end(), stored.begin(), stored.end());
  return *this;
}

GgufBuilder& GgufBuilder::ClaimTensorCount(uint64_t count) {
  claimed_tensors_ = count;
  return *this;
}

GgufBuilder& GgufBuilder::ClaimKeyValueCount(uint64_t count) {
  claimed_key_values_ = count;
  return *this;
}

std::vector<std::byte> GgufBuilder::Build() const {
  std::vector<std::byte> file;
  for (const char c : std::string_view("GGUF")) file.push_back(static_cast<std::byte>(c));
  Append(version_, &file);
  Append(claimed_tensors_.value_or(num_tensors_), &file);
  Append(claimed_key_values_.value_or(num_key_values_), &file);
  file.insert(file.end(), key_values_.begin(), key_values_.end());
  file.insert(file.end(), tensor_infos_.begin(), tensor_infos_.end());
  if (num_tensors_ > 0) {
    Pad(alignment_, &file);
    file.insert(file.end(), data_.begin(), data_.end());
  }
  return file;
}

}  // namespace octavo::formats
