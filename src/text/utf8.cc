#include "text/utf8.h"

#include <cstdint>
#include <cstring>

#include "base/check.h"

namespace octavo::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

struct LeadByte {
  size_t num_bytes = 0;  // of the whole character; 0 if no character begins like this
  uint8_t second_min = 0x80;
  uint8_t second_max = 0xBF;
};

LeadByte ClassifyLead(uint8_t lead) {
  if (lead < 0x80) return {1};
  if (lead < 0xC2) return {0};  // a continuation byte, or an overlong form
  if (lead < 0xE0) return {2};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};  // below is overlong
  if (lead == 0xED) return {3, 0x80, 0x9F};  // above are surrogates
  if (lead < 0xF0) return {3};
  if (lead == 0xF0) return {4, 0x90, 0xBF};  // below is overlong
  if (lead < 0xF4) return {4};
  if (lead == 0xF4) return {4, 0x80, 0x8F};  // above is beyond U+10FFFF
  return {0};
}

size_t AsciiPrefix(std::string_view bytes) {
  constexpr uint64_t kHighBits = 0x8080808080808080;
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    if ((word & kHighBits) != 0) break;
  }
  while (i < bytes.size() && static_cast<uint8_t>(bytes[i]) < 0x80) ++i;
  return i;
}

}  // namespace

Utf8Unit NextUtf8Unit(std::string_view bytes) {
  OCTAVO_DCHECK(!bytes.empty(), "NextUtf8Unit needs a byte");
  const LeadByte lead = ClassifyLead(static_cast<uint8_t>(bytes[0]));
  if (lead.num_bytes == 0) return {Utf8Kind::kInvalid, 1};
  for (size_t i = 1; i < lead.num_bytes; ++i) {
    if (i == bytes.size()) return {Utf8Kind::kIncomplete, i};
    const uint8_t byte = static_cast<uint8_t>(bytes[i]);
    const uint8_t min = i == 1 ? lead.second_min : 0x80;
    const uint8_t max = i == 1 ? lead.second_max : 0xBF;
    if (byte < min || byte > max) return {Utf8Kind::kInvalid, i};
  }
  return {Utf8Kind::kValid, lead.num_bytes};
}

size_t ValidUtf8Prefix(std::string_view bytes) {
  size_t pos = 0;
  while (true) {
    pos += AsciiPrefix(bytes.substr(pos));
    if (pos == bytes.size()) return pos;
    const Utf8Unit unit = NextUtf8Unit(bytes.substr(pos));
    if (unit.kind != Utf8Kind::kValid) return pos;
    pos += unit.num_bytes;
  }
}

std::optional<size_t> ValidateUtf8(std::string_view bytes) {
  const size_t valid = ValidUtf8Prefix(bytes);
  if (valid == bytes.size()) return std::nullopt;
  return valid;
}

std::string ReplaceInvalidUtf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  Utf8Stream stream;
  stream.Push(bytes, &text);
  stream.Flush(&text);
  return text;
}

void Utf8Stream::Push(std::string_view bytes, std::string* text) {
  std::string joined;
  if (!held_.empty()) {
    joined = std::move(held_);
    held_.clear();
    joined += bytes;
    bytes = joined;
  }
  while (!bytes.empty()) {
    const size_t valid = ValidUtf8Prefix(bytes);
    text->append(bytes.substr(0, valid));
    bytes.remove_prefix(valid);
    if (bytes.empty()) return;
    const Utf8Unit unit = NextUtf8Unit(bytes);
    if (unit.kind == Utf8Kind::kIncomplete) {
      held_ = bytes;
      return;
    }
    text->append(kReplacement);
    bytes.remove_prefix(unit.num_bytes);
  }
}

void Utf8Stream::Flush(std::string* text) {
  if (!held_.empty()) text->append(kReplacement);
  held_.clear();
}

}  // namespace octavo::text
