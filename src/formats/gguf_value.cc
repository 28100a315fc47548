#include "formats/gguf_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "base/check.h"
#include "formats/byte_reader.h"

namespace octavo::formats {
namespace {

constexpr size_t kShownElements = 3;

struct TypeEntry {
  std::string_view name;
  size_t bytes;
};

constexpr std::array<TypeEntry, kNumGgufTypes> kTypes = {{{"u8", 1},
                                                          {"i8", 1},
                                                          {"u16", 2},
                                                          {"i16", 2},
                                                          {"u32", 4},
                                                          {"i32", 4},
                                                          {"f32", 4},
                                                          {"bool", 1},
                                                          {"string", 0},
                                                          {"array", 0},
                                                          {"u64", 8},
                                                          {"i64", 8},
                                                          {"f64", 8}}};

// Bytes of the well-formed UTF-8 character at the start of `text` (not empty), or 0 if there is
// none.
size_t Utf8Length(std::string_view text) {
  const auto byte_at = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte_at(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte_at(i) & 0xc0) != 0x80) return 0;
  }
  const uint8_t second = byte_at(1);
  const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool surrogate = lead == 0xed && second >= 0xa0;
  const bool beyond = lead == 0xf4 && second >= 0x90;
  return overlong || surrogate || beyond ? 0 : length;
}

// U+0000..U+001F, U+007F, U+0080..U+009F.
bool IsControl(std::string_view character) {
  const uint8_t lead = static_cast<uint8_t>(character[0]);
  if (character.size() == 1) return lead < 0x20 || lead == 0x7f;
  return lead == 0xc2 && static_cast<uint8_t>(character[1]) < 0xa0;
}

void AppendEscaped(std::string_view character, std::string* out) {
  for (const char c : character) {
    if (c == '\n') {
      *out += "\\n";
    } else if (c == '\t') {
      *out += "\\t";
    } else {
      *out += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
    }
  }
}

std::string FormatArray(const GgufArray& array) {
  std::string out = fmt::format("{}[{}] [", TypeName(array.element_type), array.size);
  for (size_t i = 0; i < std::min(array.size, kShownElements); ++i) {
    if (i > 0) out += ", ";
    out += FormatValue(ElementAt(array, i));
  }
  out += array.size > kShownElements ? ", ...]" : "]";
  return out;
}

}  // namespace

std::string_view TypeName(GgufType type) { return kTypes.at(static_cast<size_t>(type)).name; }

size_t TypeBytes(GgufType type) { return kTypes.at(static_cast<size_t>(type)).bytes; }

std::string DescribeType(const GgufValue& value) {
  if (const GgufArray* array = std::get_if<GgufArray>(&value)) {
    return fmt::format("{}[]", TypeName(array->element_type));
  }
  return std::string(TypeName(TypeOf(value)));
}

GgufValue ElementAt(const GgufArray& array, size_t index) {
  OCTAVO_CHECK(index < array.size, "an array's element");
  if (array.element_type == GgufType::kString) return array.strings[index];
  const std::byte* stored = array.stored.data() + index * TypeBytes(array.element_type);
  switch (array.element_type) {
    case GgufType::kUint8:
      return LoadLittleEndian<uint8_t>(stored);
    case GgufType::kInt8:
      return LoadLittleEndian<int8_t>(stored);
    case GgufType::kUint16:
      return LoadLittleEndian<uint16_t>(stored);
    case GgufType::kInt16:
      return LoadLittleEndian<int16_t>(stored);
    case GgufType::kUint32:
      return LoadLittleEndian<uint32_t>(stored);
    case GgufType::kInt32:
      return LoadLittleEndian<int32_t>(stored);
    case GgufType::kFloat32:
      return LoadLittleEndian<float>(stored);
    case GgufType::kBool:
      return LoadLittleEndian<uint8_t>(stored) != 0;
    case GgufType::kUint64:
      return LoadLittleEndian<uint64_t>(stored);
    case GgufType::kInt64:
      return LoadLittleEndian<int64_t>(stored);
    case GgufType::kFloat64:
      return LoadLittleEndian<double>(stored);
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  OCTAVO_CHECK(false, "an array's element type");
}

std::string Quote(std::string_view text, size_t max_bytes) {
  std::string out = "\"";
  size_t position = 0;
  while (position < text.size()) {
    const size_t length = Utf8Length(text.substr(position));
    const std::string_view character = text.substr(position, std::max<size_t>(length, 1));
    if (position + character.size() > max_bytes) break;
    if (length == 0 || IsControl(character)) {
      AppendEscaped(character, &out);
    } else {
      if (character == "\"" || character == "\\") out += '\\';
      out += character;
    }
    position += character.size();
  }
  out += position < text.size() ? "...\"" : "\"";
  return out;
}

std::string FormatValue(const GgufValue& value) {
  return std::visit(
      [](const auto& held) -> std::string {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, std::string_view>) {
          return Quote(held);
        } else if constexpr (std::is_same_v<Held, GgufArray>) {
          return FormatArray(held);
        } else {
          return fmt::format("{}", held);
        }
      },
      value);
}

}  // namespace octavo::formats
