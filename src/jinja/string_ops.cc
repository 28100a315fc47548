#include "jinja/string_ops.h"

#include <algorithm>

#include "jinja/python_text.h"
#include "jinja/unicode.h"

namespace octavo::jinja {
namespace {

bool IsCased(int32_t code_point) { return IsUpper(code_point) || IsLower(code_point); }

// A sigma at the end of a word has a lower case of its own.
bool IsFinalSigma(std::string_view text, size_t begin, size_t end) {
  if (begin == 0 || !IsAlpha(CodePointAt(text, CharacterBefore(text, begin)))) return false;
  return end == text.size() || !IsAlpha(CodePointAt(text, end));
}

std::string LowerAt(std::string_view text, size_t begin, size_t end) {
  const int32_t code_point = CodePointAt(text, begin);
  if (code_point == 0x3A3 && IsFinalSigma(text, begin, end)) return "\xCF\x82";
  return Lower(code_point);
}

// Each character becomes what `map(begin, end)` gives for it.
template <typename Map>
TrackedString MapCharacters(Execution& execution, const TrackedString& text, Map map) {
  StringBuilder builder(execution);
  for (size_t begin = 0; begin < text.size() && !execution.failed();) {
    const size_t end = begin + CharacterBytes(text.bytes(), begin);
    builder.AppendAs(map(begin, end), text, begin, end);
    begin = end;
  }
  return builder.Take().WithMarkup(text.is_markup());
}

bool IsAnyOf(std::string_view chars, std::string_view character) {
  for (size_t at = 0; at < chars.size();) {
    const size_t size = CharacterBytes(chars, at);
    if (chars.substr(at, size) == character) return true;
    at += size;
  }
  return false;
}

}  // namespace

TrackedString ToUpper(Execution& execution, const TrackedString& text) {
  return MapCharacters(execution, text, [&text](size_t begin, size_t) {
    return Upper(CodePointAt(text.bytes(), begin));
  });
}

TrackedString ToLower(Execution& execution, const TrackedString& text) {
  return MapCharacters(execution, text, [&text](size_t begin, size_t end) {
    return LowerAt(text.bytes(), begin, end);
  });
}

TrackedString Capitalize(Execution& execution, const TrackedString& text) {
  return MapCharacters(execution, text, [&text](size_t begin, size_t end) {
    return begin == 0 ? Title(CodePointAt(text.bytes(), 0)) : LowerAt(text.bytes(), begin, end);
  });
}

TrackedString SwapCase(Execution& execution, const TrackedString& text) {
  return MapCharacters(execution, text, [&text](size_t begin, size_t end) {
    const int32_t code_point = CodePointAt(text.bytes(), begin);
    return IsUpper(code_point) ? LowerAt(text.bytes(), begin, end) : Upper(code_point);
  });
}

TrackedString TitleCase(Execution& execution, const TrackedString& text) {
  bool after_cased = false;
  return MapCharacters(execution, text, [&](size_t begin, size_t end) {
    const int32_t code_point = CodePointAt(text.bytes(), begin);
    const bool lower = std::exchange(after_cased, IsCased(code_point));
    return lower ? LowerAt(text.bytes(), begin, end) : Title(code_point);
  });
}

TrackedString Strip(Execution& execution, const TrackedString& text, const TrackedString* chars,
                    Sides sides) {
  const std::string_view bytes = text.bytes();
  const int64_t cost = chars != nullptr ? 1 + static_cast<int64_t>(chars->size() / 8) : 1;
  const auto stripped = [&](size_t begin, size_t end) {
    if (chars == nullptr) return IsSpace(CodePointAt(bytes, begin));
    return execution.Charge(cost) && IsAnyOf(chars->bytes(), bytes.substr(begin, end - begin));
  };
  size_t begin = 0, end = bytes.size();
  while (sides.left && begin < end) {
    const size_t next = begin + CharacterBytes(bytes, begin);
    if (!stripped(begin, next)) break;
    begin = next;
  }
  while (sides.right && begin < end) {
    const size_t last = CharacterBefore(bytes, end);
    if (!stripped(last, end)) break;
    end = last;
  }
  return Slice(execution, text, begin, end);
}

TrackedString Replace(Execution& execution, const TrackedString& text, const TrackedString& old,
                      const TrackedString& replacement, int64_t count) {
  StringBuilder builder(execution);
  const std::string_view bytes = text.bytes();
  size_t done = 0;
  size_t at = 0;
  execution.ChargeBytes(bytes.size());
  for (; count != 0 && !execution.failed(); --count) {
    at = bytes.find(old.bytes(), at);
    if (at == std::string_view::npos) break;
    builder.Append(text, done, at);
    builder.Append(replacement);
    execution.Charge(1);
    done = at + old.size();
    at = done;
    if (!old.empty()) continue;
    if (at == bytes.size()) break;
    at += CharacterBytes(bytes, at);
  }
  builder.Append(text, done, bytes.size());
  return builder.Take().WithMarkup(text.is_markup());
}

std::vector<TrackedString> SplitLines(Execution& execution, const TrackedString& text,
                                      bool keep_ends) {
  std::vector<TrackedString> lines;
  const std::string_view bytes = text.bytes();
  size_t begin = 0;
  for (size_t at = 0; at < bytes.size() && !execution.failed();) {
    size_t end = at + CharacterBytes(bytes, at);
    if (IsLineBreak(CodePointAt(bytes, at))) {
      if (bytes[at] == '\r' && end < bytes.size() && bytes[end] == '\n') ++end;
      lines.push_back(Slice(execution, text, begin, keep_ends ? end : at));
      begin = end;
    }
    at = end;
  }
  if (begin < bytes.size()) lines.push_back(Slice(execution, text, begin, bytes.size()));
  return lines;
}

TrackedString Join(Execution& execution, const TrackedString& separator,
                   const std::vector<Value>& items) {
  StringBuilder builder(execution);
  for (size_t i = 0; i < items.size() && execution.Charge(1); ++i) {
    if (i > 0) builder.Append(separator);
    if (!items[i].is_string() && !separator.is_markup()) {
      execution.Fail("sequence item " + std::to_string(i) + ": expected str instance, " +
                     std::string(TypeName(items[i])) + " found");
      break;
    }
    if (separator.is_markup()) {
      AppendEscaped(Str(execution, items[i]), &builder);
    } else {
      builder.Append(items[i].string());
    }
  }
  return builder.Take().WithMarkup(separator.is_markup());
}

TrackedString Pad(Execution& execution, const TrackedString& text, int64_t width,
                  const TrackedString& fill, char align) {
  const int64_t length = CountCharacters(text.bytes());
  const int64_t missing = std::max<int64_t>(0, width - length);
  int64_t left = 0;
  if (align == '>') left = missing;
  if (align == '^') left = missing / 2;
  if (align == 'c') left = missing / 2 + (missing & width & 1);
  StringBuilder builder(execution);
  for (int64_t i = 0; i < left && execution.Charge(1); ++i) builder.Append(fill);
  builder.Append(text);
  for (int64_t i = left; i < missing && execution.Charge(1); ++i) builder.Append(fill);
  return builder.Take().WithMarkup(text.is_markup());
}

}  // namespace octavo::jinja
