#include "formats/gguf_parser.h"

#include <fmt/format.h>

#include <bit>
#include <limits>
#include <type_traits>
#include <utility>

#include "formats/byte_reader.h"
#include "formats/gguf_type_support.h"

namespace octavo::formats {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr std::string_view kAlignmentKey = "general.alignment";
// The smallest stored forms: a key of one byte with a value of one byte; a tensor with a name of
// one byte and one dimension.
constexpr uint64_t kMinKeyValueBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorInfoBytes = 8 + 1 + 4 + 8 + 4 + 8;
constexpr uint64_t kMinStringBytes = 8;
constexpr uint64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// What an error calls the place: `what` and the quoted name, or `what` and an index as long as the
// name is not known. It becomes text only when there is an error.
struct Field {
  std::string_view what;
  std::string_view name;
  uint64_t index = 0;

  std::string Describe() const {
    return name.empty() ? fmt::format("{} {}", what, index)
                        : fmt::format("{} {}", what, Quote(name));
  }
};

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, const std::string& name)
      : bytes_(bytes), name_(name), reader_(bytes) {}

  Result<GgufShard> Parse() {
    for (Status (Parser::*step)() :
         {&Parser::ParseHeader, &Parser::ParseKeyValues, &Parser::ReadAlignment,
          &Parser::ParseTensorInfos, &Parser::PlaceTensors, &Parser::CheckOverlap}) {
      if (Status status = (this->*step)(); !status.ok()) return status;
    }
    return std::move(shard_);
  }

 private:
  Status ParseHeader();
  Status CheckVersion(uint32_t version) const;
  Status CheckCount(std::string_view what, uint64_t count, uint64_t limit,
                    uint64_t min_bytes) const;
  Status ParseString(const Field& field, uint64_t limit_bytes, std::string_view* text);

  Status ParseKeyValues();
  Status ParseValue(const Field& field, GgufValue* value);
  Status ParseArray(const Field& field, GgufValue* value);
  Status ParseStringElements(const Field& field, GgufArray* array);
  Status CheckBools(const Field& field, const GgufArray& array) const;
  Status ReadAlignment();

  Status ParseTensorInfos();
  Status ParseDims(const Field& field, GgufTensor* tensor);
  Status ParseStorage(const Field& field, GgufTensor* tensor);
  Status PlaceTensors();
  Status CheckOverlap();

  template <typename... Args>
  Status Damaged(fmt::format_string<Args...> format, Args&&... args) const {
    return Status::DataLoss(name_ + ": " + fmt::format(format, std::forward<Args>(args)...));
  }
  Status EndsInside(std::string_view what) const {
    return Damaged("the file ends inside {}: {} bytes remain at byte {}", what, reader_.remaining(),
                   reader_.position());
  }
  template <typename T>
  Status ParseNumber(const Field& field, GgufValue* value) {
    const std::optional<T> number = reader_.Read<T>();
    if (!number) return EndsInside(field.Describe());
    *value = *number;
    return Status::Ok();
  }

  std::span<const std::byte> bytes_;
  const std::string& name_;
  ByteReader reader_;
  GgufShard shard_;
  uint64_t num_key_values_ = 0;
  uint64_t num_tensors_ = 0;
  std::vector<uint64_t> offsets_;       // [tensors], from the start of the data section
  std::vector<uint64_t> stored_bytes_;  // [tensors]
};

Status Parser::ParseHeader() {
  const auto magic = reader_.Take(kMagic.size());
  if (!magic || AsText(*magic) != kMagic) {
    const auto start = bytes_.first(std::min(bytes_.size(), kMagic.size()));
    if (bytes_.empty()) return Damaged("not a GGUF file: it is empty");
    return Damaged("not a GGUF file: it starts with {} instead of \"GGUF\"", Quote(AsText(start)));
  }
  const std::optional<uint32_t> version = reader_.Read<uint32_t>();
  if (!version) return EndsInside("the version");
  if (Status status = CheckVersion(*version); !status.ok()) return status;
  shard_.version = *version;

  const std::optional<uint64_t> num_tensors = reader_.Read<uint64_t>();
  if (!num_tensors) return EndsInside("the tensor count");
  const std::optional<uint64_t> num_key_values = reader_.Read<uint64_t>();
  if (!num_key_values) return EndsInside("the key-value count");
  num_tensors_ = *num_tensors;
  num_key_values_ = *num_key_values;
  Status status = CheckCount("the tensor count", num_tensors_, kMaxTensors, kMinTensorInfoBytes);
  if (!status.ok()) return status;
  return CheckCount("the key-value count", num_key_values_, kMaxKeyValues, kMinKeyValueBytes);
}

Status Parser::CheckVersion(uint32_t version) const {
  if (version == 2 || version == 3) return Status::Ok();
  const uint32_t swapped = __builtin_bswap32(version);
  if (swapped >= 1 && swapped <= 3) {
    return Status::Unimplemented(
        fmt::format("{}: a big-endian GGUF file (version {}); octavo reads little-endian files",
                    name_, swapped));
  }
  return Status::Unimplemented(
      fmt::format("{}: GGUF version {}; octavo reads versions 2 and 3", name_, version));
}

Status Parser::CheckCount(std::string_view what, uint64_t count, uint64_t limit,
                          uint64_t min_bytes) const {
  if (count > limit) return Damaged("{} is {}; the limit is {}", what, count, limit);
  if (count > reader_.remaining() / min_bytes) {
    return Damaged("{} is {}, but the {} bytes that remain at byte {} hold at most {}", what, count,
                   reader_.remaining(), reader_.position(), reader_.remaining() / min_bytes);
  }
  return Status::Ok();
}

Status Parser::ParseString(const Field& field, uint64_t limit_bytes, std::string_view* text) {
  const std::optional<uint64_t> length = reader_.Read<uint64_t>();
  if (!length) return EndsInside(field.Describe());
  if (*length > limit_bytes) {
    return Damaged("{} is {} bytes long at byte {}; the limit is {}", field.Describe(), *length,
                   reader_.position(), limit_bytes);
  }
  const auto bytes = reader_.Take(*length);
  if (!bytes) {
    return Damaged("{} is {} bytes long, but {} bytes remain at byte {}", field.Describe(), *length,
                   reader_.remaining(), reader_.position());
  }
  *text = AsText(*bytes);
  return Status::Ok();
}

Status Parser::ParseKeyValues() {
  shard_.key_values.reserve(num_key_values_);
  for (uint64_t i = 0; i < num_key_values_; ++i) {
    GgufKeyValue key_value;
    const Field key_field = {"the name of key", {}, i};
    Status status = ParseString(key_field, kMaxKeyBytes, &key_value.key);
    if (!status.ok()) return status;
    if (key_value.key.empty()) return Damaged("{} is empty", key_field.Describe());
    status = ParseValue({"the value of key", key_value.key}, &key_value.value);
    if (!status.ok()) return status;
    shard_.key_values.push_back(std::move(key_value));
  }

  shard_.keys_sorted = SortedPositions(shard_.key_values, &GgufKeyValue::key);
  const GgufKeyValue* duplicate =
      FindDuplicate(shard_.key_values, shard_.keys_sorted, &GgufKeyValue::key);
  if (duplicate != nullptr) return Damaged("key {} appears twice", Quote(duplicate->key));
  return Status::Ok();
}

Status Parser::ParseValue(const Field& field, GgufValue* value) {
  const std::optional<uint32_t> type_id = reader_.Read<uint32_t>();
  if (!type_id) return EndsInside(field.Describe());
  if (*type_id >= kNumGgufTypes) {
    return Damaged("{} has type id {}; the largest is {}", field.Describe(), *type_id,
                   kNumGgufTypes - 1);
  }
  switch (static_cast<GgufType>(*type_id)) {
    case GgufType::kUint8:
      return ParseNumber<uint8_t>(field, value);
    case GgufType::kInt8:
      return ParseNumber<int8_t>(field, value);
    case GgufType::kUint16:
      return ParseNumber<uint16_t>(field, value);
    case GgufType::kInt16:
      return ParseNumber<int16_t>(field, value);
    case GgufType::kUint32:
      return ParseNumber<uint32_t>(field, value);
    case GgufType::kInt32:
      return ParseNumber<int32_t>(field, value);
    case GgufType::kFloat32:
      return ParseNumber<float>(field, value);
    case GgufType::kUint64:
      return ParseNumber<uint64_t>(field, value);
    case GgufType::kInt64:
      return ParseNumber<int64_t>(field, value);
    case GgufType::kFloat64:
      return ParseNumber<double>(field, value);
    case GgufType::kArray:
      return ParseArray(field, value);
    case GgufType::kBool: {
      const std::optional<uint8_t> stored = reader_.Read<uint8_t>();
      if (!stored) return EndsInside(field.Describe());
      if (*stored > 1) {
        return Damaged("{} is a bool stored as {}; only 0 and 1 are allowed", field.Describe(),
                       *stored);
      }
      *value = *stored != 0;
      return Status::Ok();
    }
    case GgufType::kString: {
      std::string_view text;
      Status status = ParseString(field, kMaxStringBytes, &text);
      *value = text;
      return status;
    }
  }
  return Status::Internal("a value type without a parser");
}

Status Parser::ParseArray(const Field& field, GgufValue* value) {
  const std::optional<uint32_t> type_id = reader_.Read<uint32_t>();
  if (!type_id) return EndsInside(field.Describe());
  if (*type_id >= kNumGgufTypes) {
    return Damaged("{} is an array with element type id {}; the largest is {}", field.Describe(),
                   *type_id, kNumGgufTypes - 1);
  }
  GgufArray array;
  array.element_type = static_cast<GgufType>(*type_id);
  if (array.element_type == GgufType::kArray) {
    return Damaged("{} is an array of arrays (element type id {}), which is not allowed",
                   field.Describe(), *type_id);
  }
  const std::optional<uint64_t> size = reader_.Read<uint64_t>();
  if (!size) return EndsInside(field.Describe());
  const bool is_strings = array.element_type == GgufType::kString;
  Status status =
      CheckCount(field.Describe() + "'s array length", *size, kMaxArrayElements,
                 is_strings ? kMinStringBytes : uint64_t{TypeBytes(array.element_type)});
  if (!status.ok()) return status;
  array.size = *size;

  if (is_strings) {
    status = ParseStringElements(field, &array);
  } else {
    array.stored = reader_.Take(*size * TypeBytes(array.element_type)).value();
    if (array.element_type == GgufType::kBool) status = CheckBools(field, array);
  }
  *value = array;
  return status;
}

Status Parser::ParseStringElements(const Field& field, GgufArray* array) {
  std::vector<std::string_view>& strings = shard_.string_arrays.emplace_back(array->size);
  for (size_t i = 0; i < array->size; ++i) {
    const size_t start = reader_.position();
    const std::optional<uint64_t> length = reader_.Read<uint64_t>();
    const auto bytes = length ? reader_.Take(*length) : std::nullopt;
    if (!bytes) {
      return Damaged("{}: element {} of {} at byte {} needs {} bytes, but {} remain",
                     field.Describe(), i, array->size, start, length.value_or(kMinStringBytes),
                     reader_.remaining());
    }
    strings[i] = AsText(*bytes);
  }
  array->strings = strings;
  return Status::Ok();
}

Status Parser::CheckBools(const Field& field, const GgufArray& array) const {
  for (size_t i = 0; i < array.size; ++i) {
    if (array.stored[i] > std::byte{1}) {
      return Damaged("{}: element {} is a bool stored as {}; only 0 and 1 are allowed",
                     field.Describe(), i, std::to_integer<int>(array.stored[i]));
    }
  }
  return Status::Ok();
}

Status Parser::ReadAlignment() {
  const GgufValue* value = shard_.Find(kAlignmentKey);
  if (value == nullptr) return Status::Ok();
  const uint32_t* alignment = std::get_if<uint32_t>(value);
  if (alignment == nullptr) {
    return Damaged("key {} has type {}; it must be u32", kAlignmentKey, DescribeType(*value));
  }
  if (!std::has_single_bit(*alignment) || *alignment > kMaxAlignment) {
    return Damaged("key {} is {}; it must be a power of two from 1 to {}", kAlignmentKey,
                   *alignment, kMaxAlignment);
  }
  shard_.alignment = *alignment;
  return Status::Ok();
}

Status Parser::ParseTensorInfos() {
  shard_.tensors.reserve(num_tensors_);
  offsets_.reserve(num_tensors_);
  stored_bytes_.reserve(num_tensors_);
  for (uint64_t i = 0; i < num_tensors_; ++i) {
    GgufTensor tensor;
    const Field name_field = {"the name of tensor", {}, i};
    Status status = ParseString(name_field, kMaxTensorNameBytes, &tensor.name);
    if (!status.ok()) return status;
    if (tensor.name.empty()) return Damaged("{} is empty", name_field.Describe());
    const Field field = {"tensor", tensor.name};
    if (status = ParseDims(field, &tensor); !status.ok()) return status;
    if (status = ParseStorage(field, &tensor); !status.ok()) return status;
    shard_.tensors.push_back(tensor);
  }
  return Status::Ok();
}

Status Parser::ParseDims(const Field& field, GgufTensor* tensor) {
  const std::optional<uint32_t> num_dims = reader_.Read<uint32_t>();
  if (!num_dims) return EndsInside(field.Describe());
  if (*num_dims < 1 || *num_dims > kMaxTensorDims) {
    return Damaged("{} has {} dimensions; the limits are 1 and {}", field.Describe(), *num_dims,
                   kMaxTensorDims);
  }
  uint64_t num_elements = 1;
  for (uint32_t i = 0; i < *num_dims; ++i) {
    const std::optional<int64_t> dim = reader_.Read<int64_t>();
    if (!dim) return EndsInside(field.Describe());
    if (*dim < 1) {
      return Damaged("{} has dimension {} = {}; the smallest is 1", field.Describe(), i, *dim);
    }
    if (static_cast<uint64_t>(*dim) > kMaxInt64 / num_elements) {
      return Damaged("{} has dimension {} = {}: the product of its dimensions exceeds {}",
                     field.Describe(), i, *dim, kMaxInt64);
    }
    num_elements *= static_cast<uint64_t>(*dim);
    tensor->dims[i] = *dim;
  }
  tensor->num_dims = static_cast<int>(*num_dims);
  tensor->num_elements = static_cast<int64_t>(num_elements);
  return Status::Ok();
}

Status Parser::ParseStorage(const Field& field, GgufTensor* tensor) {
  const std::optional<uint32_t> type_id = reader_.Read<uint32_t>();
  const std::optional<uint64_t> offset = reader_.Read<uint64_t>();
  if (!type_id || !offset) return EndsInside(field.Describe());
  const std::optional<tensor::DType> dtype = tensor::DTypeFromId(*type_id);
  if (!dtype) {
    return Status::Unimplemented(
        fmt::format("{}: {} has {}", name_, field.Describe(), DescribeUnsupportedType(*type_id)));
  }
  tensor->dtype = *dtype;

  const tensor::DTypeTraits& traits = tensor::Traits(*dtype);
  if (tensor->dims[0] % traits.block_elements != 0) {
    return Damaged("{} has rows of {} elements; type {} needs a multiple of {}", field.Describe(),
                   tensor->dims[0], traits.name, traits.block_elements);
  }
  const uint64_t num_blocks = static_cast<uint64_t>(tensor->num_elements) / traits.block_elements;
  if (num_blocks > kMaxInt64 / traits.block_bytes) {
    return Damaged("{} has {} elements of type {}, more bytes than the limit of {}",
                   field.Describe(), tensor->num_elements, traits.name, kMaxInt64);
  }
  offsets_.push_back(*offset);
  stored_bytes_.push_back(num_blocks * traits.block_bytes);
  return Status::Ok();
}

Status Parser::PlaceTensors() {
  const uint64_t alignment = shard_.alignment;
  const uint64_t data_start = (reader_.position() + alignment - 1) / alignment * alignment;
  const uint64_t data_bytes = data_start <= bytes_.size() ? bytes_.size() - data_start : 0;
  for (size_t i = 0; i < shard_.tensors.size(); ++i) {
    const Field field = {"tensor", shard_.tensors[i].name};
    const uint64_t offset = offsets_[i];
    if (offset % alignment != 0) {
      return Damaged("{} has offset {}, which is not a multiple of the alignment {}",
                     field.Describe(), offset, alignment);
    }
    if (offset > data_bytes || stored_bytes_[i] > data_bytes - offset) {
      return Damaged("{} has {} bytes at offset {}, but the data section at byte {} has {} bytes",
                     field.Describe(), stored_bytes_[i], offset, data_start, data_bytes);
    }
    shard_.tensors[i].stored = bytes_.subspan(data_start + offset, stored_bytes_[i]);
  }
  return Status::Ok();
}

Status Parser::CheckOverlap() {
  std::vector<uint32_t> order(shard_.tensors.size());
  std::iota(order.begin(), order.end(), uint32_t{0});
  std::sort(order.begin(), order.end(),
            [this](uint32_t a, uint32_t b) { return offsets_[a] < offsets_[b]; });
  for (size_t i = 1; i < order.size(); ++i) {
    const uint32_t before = order[i - 1];
    const uint32_t after = order[i];
    if (stored_bytes_[before] > offsets_[after] - offsets_[before]) {
      return Damaged("tensor {} at offset {} overlaps tensor {} ({} bytes at offset {})",
                     Quote(shard_.tensors[after].name), offsets_[after],
                     Quote(shard_.tensors[before].name), stored_bytes_[before], offsets_[before]);
    }
  }
  return Status::Ok();
}

}  // namespace

const GgufValue* FindValue(std::span<const GgufKeyValue> key_values,
                           std::span<const uint32_t> sorted, std::string_view key) {
  const auto found =
      std::lower_bound(sorted.begin(), sorted.end(), key,
                       [&](uint32_t i, std::string_view k) { return key_values[i].key < k; });
  if (found == sorted.end() || key_values[*found].key != key) return nullptr;
  return &key_values[*found].value;
}

const GgufValue* GgufShard::Find(std::string_view key) const {
  return FindValue(key_values, keys_sorted, key);
}

std::optional<int64_t> AsInt(const GgufValue& value) {
  return std::visit(
      [](const auto& held) -> std::optional<int64_t> {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_integral_v<Held> && !std::is_same_v<Held, bool>) {
          if (std::in_range<int64_t>(held)) return static_cast<int64_t>(held);
        }
        return std::nullopt;
      },
      value);
}

std::optional<uint64_t> AsUint(const GgufValue& value) {
  return std::visit(
      [](const auto& held) -> std::optional<uint64_t> {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_integral_v<Held> && !std::is_same_v<Held, bool>) {
          if (std::in_range<uint64_t>(held)) return static_cast<uint64_t>(held);
        }
        return std::nullopt;
      },
      value);
}

Result<GgufShard> ParseGgufShard(std::span<const std::byte> bytes, const std::string& name) {
  return Parser(bytes, name).Parse();
}

}  // namespace octavo::formats
