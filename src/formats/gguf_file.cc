#include "formats/gguf_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "formats/byte_reader.h"
#include "formats/gguf_parser.h"

namespace octavo::formats {
namespace {

// Copies an array's numbers. REQUIRES: T is the element type's C++ type.
template <typename T>
std::vector<T> CopyNumbers(const GgufArray& array) {
  std::vector<T> numbers(array.size);
  for (size_t i = 0; i < array.size; ++i) {
    numbers[i] = LoadLittleEndian<T>(array.stored.data() + i * sizeof(T));
  }
  return numbers;
}

// `value` if there is one, `fallback` if its key is missing, else the error.
template <typename T>
Result<T> ValueOr(Result<T> value, T fallback) {
  if (!value.ok() && value.status().code() == StatusCode::kNotFound) return fallback;
  return value;
}

}  // namespace

Result<GgufFile> GgufFile::FromBytes(std::span<const std::byte> bytes, std::string name) {
  return FromShards({&bytes, 1}, std::move(name));
}

const GgufValue* GgufFile::Find(std::string_view key) const {
  return FindValue(key_values_, keys_sorted_, key);
}

Status GgufFile::WrongType(std::string_view key, const GgufValue& value,
                           std::string_view wanted) const {
  return Status::DataLoss(fmt::format("{}: key {} is {} ({}); it must be {}", name_, Quote(key),
                                      FormatValue(value), DescribeType(value), wanted));
}

Result<const GgufValue*> GgufFile::Require(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) {
    return Status::NotFound(fmt::format("{}: key {} is missing", name_, Quote(key)));
  }
  return value;
}

Result<const GgufArray*> GgufFile::RequireArray(std::string_view key, GgufType element_type) const {
  const Result<const GgufValue*> value = Require(key);
  if (!value.ok()) return value.status();
  const GgufArray* array = std::get_if<GgufArray>(*value);
  if (array == nullptr || array->element_type != element_type) {
    return WrongType(key, **value, fmt::format("{}[]", TypeName(element_type)));
  }
  return array;
}

Result<uint64_t> GgufFile::GetUint(std::string_view key) const {
  const Result<const GgufValue*> value = Require(key);
  if (!value.ok()) return value.status();
  const std::optional<uint64_t> number = AsUint(**value);
  if (!number) return WrongType(key, **value, "an integer that is not negative");
  return *number;
}

Result<int64_t> GgufFile::GetInt(std::string_view key) const {
  const Result<const GgufValue*> value = Require(key);
  if (!value.ok()) return value.status();
  const std::optional<int64_t> number = AsInt(**value);
  if (!number) return WrongType(key, **value, "an integer below 2^63");
  return *number;
}

Result<double> GgufFile::GetFloat(std::string_view key) const {
  const Result<const GgufValue*> value = Require(key);
  if (!value.ok()) return value.status();
  if (const float* number = std::get_if<float>(*value)) return double{*number};
  if (const double* number = std::get_if<double>(*value)) return *number;
  return WrongType(key, **value, "f32 or f64");
}

Result<bool> GgufFile::GetBool(std::string_view key) const {
  const Result<const GgufValue*> value = Require(key);
  if (!value.ok()) return value.status();
  if (const bool* held = std::get_if<bool>(*value)) return *held;
  return WrongType(key, **value, "bool");
}

Result<std::string_view> GgufFile::GetString(std::string_view key) const {
  const Result<const GgufValue*> value = Require(key);
  if (!value.ok()) return value.status();
  if (const std::string_view* text = std::get_if<std::string_view>(*value)) return *text;
  return WrongType(key, **value, "string");
}

Result<std::span<const std::string_view>> GgufFile::GetStrings(std::string_view key) const {
  const Result<const GgufArray*> array = RequireArray(key, GgufType::kString);
  if (!array.ok()) return array.status();
  return (*array)->strings;
}

Result<std::vector<float>> GgufFile::GetFloats(std::string_view key) const {
  const Result<const GgufArray*> array = RequireArray(key, GgufType::kFloat32);
  if (!array.ok()) return array.status();
  return CopyNumbers<float>(**array);
}

Result<std::vector<int32_t>> GgufFile::GetInt32s(std::string_view key) const {
  const Result<const GgufArray*> array = RequireArray(key, GgufType::kInt32);
  if (!array.ok()) return array.status();
  return CopyNumbers<int32_t>(**array);
}

Result<std::vector<uint64_t>> GgufFile::GetUints(std::string_view key) const {
  const Result<const GgufValue*> value = Require(key);
  if (!value.ok()) return value.status();
  constexpr std::string_view kWanted = "an array of integers that are not negative";
  const GgufArray* array = std::get_if<GgufArray>(*value);
  if (array == nullptr) return WrongType(key, **value, kWanted);
  std::vector<uint64_t> numbers(array->size);
  for (size_t i = 0; i < array->size; ++i) {
    const std::optional<uint64_t> number = AsUint(ElementAt(*array, i));
    if (!number) return WrongType(key, **value, kWanted);
    numbers[i] = *number;
  }
  return numbers;
}

Result<uint64_t> GgufFile::GetUintOr(std::string_view key, uint64_t fallback) const {
  return ValueOr(GetUint(key), fallback);
}

Result<double> GgufFile::GetFloatOr(std::string_view key, double fallback) const {
  return ValueOr(GetFloat(key), fallback);
}

Result<bool> GgufFile::GetBoolOr(std::string_view key, bool fallback) const {
  return ValueOr(GetBool(key), fallback);
}

Result<std::string_view> GgufFile::GetStringOr(std::string_view key,
                                               std::string_view fallback) const {
  return ValueOr(GetString(key), fallback);
}

const GgufTensor* GgufFile::FindTensor(std::string_view tensor_name) const {
  const auto found = std::lower_bound(
      names_sorted_.begin(), names_sorted_.end(), tensor_name,
      [this](uint32_t i, std::string_view wanted) { return tensors_[i].name < wanted; });
  if (found == names_sorted_.end() || tensors_[*found].name != tensor_name) return nullptr;
  return &tensors_[*found];
}

void GgufFile::ReleasePages(std::span<const std::byte> stored) const {
  for (const base::MappedFile& file : files_) {
    const std::span<const std::byte> bytes = file.bytes();
    const std::less_equal<> before;  // of pointers into different files
    if (before(bytes.data(), stored.data()) &&
        before(stored.data() + stored.size(), bytes.data() + bytes.size())) {
      return file.ReleasePages(stored);
    }
  }
}

}  // namespace octavo::formats
