#pragma once

// Purpose:    one metadata value of a GGUF file.
// Ownership:  views into the file's bytes: strings and arrays live as long as the GgufFile that
// gave them. Threading:  immutable. Invariants: the variant's index is the value's type id on disk;
// an array's elements are not arrays; a bool was stored as 0 or 1.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace octavo::formats {

enum class GgufType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};
inline constexpr uint32_t kNumGgufTypes = 13;

// "u8", "i8", ..., "string", "array".
std::string_view TypeName(GgufType type);

// Bytes of one stored value of a type of fixed size; 0 for strings and arrays.
size_t TypeBytes(GgufType type);

struct GgufArray {
  GgufType element_type = GgufType::kUint8;
  size_t size = 0;                    // elements
  std::span<const std::byte> stored;  // numbers and bools: [size] little-endian values, unaligned
  std::span<const std::string_view> strings;  // strings: [size]
};

using GgufValue = std::variant<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, float, bool,
                               std::string_view, GgufArray, uint64_t, int64_t, double>;

inline GgufType TypeOf(const GgufValue& value) { return static_cast<GgufType>(value.index()); }

// "u32", "string", "f32[]".
std::string DescribeType(const GgufValue& value);

// Element `index` of an array, as a value of its own. REQUIRES: index < array.size.
GgufValue ElementAt(const GgufArray& array, size_t index);

// The text in double quotes, on one line, cut to `max_bytes` of input: control characters and bytes
// that are not UTF-8 are escaped, so that it may go to a terminal.
std::string Quote(std::string_view text, size_t max_bytes = 64);

// A short form for people, on one line: 30, 1e-05, true, "llama", string[49152] ["<|endoftext|>",
// "<|im_start|>", ...].
std::string FormatValue(const GgufValue& value);

}  // namespace octavo::formats
