// Feeds arbitrary bytes to the GGUF reader and uses all that it gives out: every accessor on every
// key, every array's ends, the decoder on small tensors. An input that starts with "SPLT" is a u32
// with the first shard's size, then two shards.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/check.h"
#include "formats/gguf_file.h"
#include "quant/decode.h"

namespace octavo {
namespace {

constexpr size_t kSplitHeaderBytes = 8;
constexpr int64_t kMaxDecodedElements = int64_t{1} << 16;

Result<formats::GgufFile> Parse(std::span<const std::byte> input) {
  if (input.size() < kSplitHeaderBytes || std::memcmp(input.data(), "SPLT", 4) != 0) {
    return formats::GgufFile::FromBytes(input, "fuzz");
  }
  uint32_t first_bytes = 0;
  std::memcpy(&first_bytes, input.data() + 4, sizeof(first_bytes));
  const std::span<const std::byte> rest = input.subspan(kSplitHeaderBytes);
  const size_t split = std::min<size_t>(first_bytes, rest.size());
  const std::span<const std::byte> shards[] = {rest.first(split), rest.subspan(split)};
  return formats::GgufFile::FromShards(shards, "fuzz");
}

void UseKey(const formats::GgufFile& file, const formats::GgufKeyValue& pair) {
  OCTAVO_CHECK(file.Find(pair.key) == &pair.value, "a key is found at its place");
  (void)file.GetUint(pair.key);
  (void)file.GetInt(pair.key);
  (void)file.GetFloat(pair.key);
  (void)file.GetBool(pair.key);
  (void)file.GetString(pair.key);
  (void)file.GetStrings(pair.key);
  (void)file.GetFloats(pair.key);
  (void)file.GetInt32s(pair.key);
  (void)file.GetUints(pair.key);
  (void)file.GetUintOr(pair.key, 0);
  OCTAVO_CHECK(formats::FormatValue(pair.value).find('\n') == std::string::npos, "one line");
  if (const auto* array = std::get_if<formats::GgufArray>(&pair.value); array && array->size > 0) {
    (void)formats::FormatValue(formats::ElementAt(*array, 0));
    (void)formats::FormatValue(formats::ElementAt(*array, array->size - 1));
  }
}

void UseTensor(const formats::GgufFile& file, const formats::GgufTensor& tensor) {
  OCTAVO_CHECK(file.FindTensor(tensor.name) == &tensor, "a tensor is found at its place");
  if (tensor.num_elements > kMaxDecodedElements) return;
  const size_t num_elements = static_cast<size_t>(tensor.num_elements);
  OCTAVO_CHECK(tensor.stored.size() == tensor::StoredBytes(tensor.dtype, num_elements), "its size");
  std::vector<float> values(num_elements);
  quant::DecodeRow(tensor.dtype, tensor.stored.data(), num_elements, values.data());
}

}  // namespace
}  // namespace octavo

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const octavo::Result<octavo::formats::GgufFile> file =
      octavo::Parse(std::as_bytes(std::span<const uint8_t>(data, size)));
  if (!file.ok()) {
    OCTAVO_CHECK(file.status().message().starts_with("fuzz"), "an error names the file");
    return 0;
  }
  for (const octavo::formats::GgufKeyValue& pair : file->key_values()) octavo::UseKey(*file, pair);
  for (const octavo::formats::GgufTensor& tensor : file->tensors()) {
    octavo::UseTensor(*file, tensor);
  }
  return 0;
}
