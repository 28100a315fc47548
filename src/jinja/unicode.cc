#include "jinja/unicode.h"

#include <utf8proc.h>

#include <algorithm>

#include "jinja/special_case.h"

namespace octavo::jinja {
namespace {

const utf8proc_uint8_t* Unsigned(const char* bytes) {
  return reinterpret_cast<const utf8proc_uint8_t*>(bytes);
}

std::string Encoded(int32_t code_point) {
  std::string text;
  AppendUtf8(code_point, &text);
  return text;
}

}  // namespace

bool IsValidUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    utf8proc_int32_t code_point = 0;
    const utf8proc_ssize_t size = utf8proc_iterate(
        Unsigned(text.data() + at),
        static_cast<utf8proc_ssize_t>(std::min<size_t>(4, text.size() - at)), &code_point);
    if (size <= 0) return false;
    at += static_cast<size_t>(size);
  }
  return true;
}

size_t CharacterBytes(std::string_view text, size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const size_t size = lead < 0xC0 ? 1 : (lead < 0xE0 ? 2 : (lead < 0xF0 ? 3 : 4));
  return std::min(size, text.size() - at);
}

int32_t CodePointAt(std::string_view text, size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80) return lead;
  utf8proc_int32_t code_point = 0;
  const auto size = static_cast<utf8proc_ssize_t>(std::min<size_t>(4, text.size() - at));
  return utf8proc_iterate(Unsigned(text.data() + at), size, &code_point) > 0 ? code_point : 0xFFFD;
}

size_t CharacterBefore(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

int64_t CountCharacters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; });
}

size_t OffsetOf(std::string_view text, int64_t index) {
  size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += CharacterBytes(text, at);
  return at;
}

void AppendUtf8(int32_t code_point, std::string* out) {
  utf8proc_uint8_t bytes[4];
  const utf8proc_ssize_t size = utf8proc_encode_char(code_point, bytes);
  for (utf8proc_ssize_t i = 0; i < size; ++i) out->push_back(static_cast<char>(bytes[i]));
}

bool IsSpace(int32_t code_point) {
  if (code_point < 0x80) {
    return code_point == ' ' || (code_point >= 9 && code_point <= 13) ||
           (code_point >= 0x1C && code_point <= 0x1F);
  }
  return code_point == 0x85 || code_point == 0xA0 || code_point == 0x1680 ||
         (code_point >= 0x2000 && code_point <= 0x200A) || code_point == 0x2028 ||
         code_point == 0x2029 || code_point == 0x202F || code_point == 0x205F ||
         code_point == 0x3000;
}

bool IsLineBreak(int32_t code_point) {
  return (code_point >= 10 && code_point <= 13) || (code_point >= 0x1C && code_point <= 0x1E) ||
         code_point == 0x85 || code_point == 0x2028 || code_point == 0x2029;
}

bool IsPrintable(int32_t code_point) {
  if (code_point < 0x7F) return code_point >= 0x20;
  switch (utf8proc_category(code_point)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
      return false;
    default:
      return true;
  }
}

bool IsAlpha(int32_t code_point) {
  switch (utf8proc_category(code_point)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return true;
    default:
      return false;
  }
}

bool IsDecimal(int32_t code_point) { return utf8proc_category(code_point) == UTF8PROC_CATEGORY_ND; }

bool IsUpper(int32_t code_point) { return utf8proc_isupper(code_point) != 0; }
bool IsLower(int32_t code_point) { return utf8proc_islower(code_point) != 0; }

std::string Upper(int32_t code_point) {
  const SpecialCase* special = code_point < 0x80 ? nullptr : FindSpecialCase(code_point);
  return special != nullptr ? special->upper : Encoded(utf8proc_toupper(code_point));
}

std::string Lower(int32_t code_point) {
  if (code_point == 0x130) return "i\xCC\x87";  // the one lower case of two characters
  return Encoded(utf8proc_tolower(code_point));
}

std::string Title(int32_t code_point) {
  const SpecialCase* special = code_point < 0x80 ? nullptr : FindSpecialCase(code_point);
  return special != nullptr ? special->title : Encoded(utf8proc_totitle(code_point));
}

}  // namespace octavo::jinja
