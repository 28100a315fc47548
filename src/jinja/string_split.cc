#include <algorithm>

#include "jinja/string_ops.h"
#include "jinja/unicode.h"

namespace octavo::jinja {
namespace {

size_t SkipSpaces(std::string_view bytes, size_t at, bool spaces) {
  while (at < bytes.size() && IsSpace(CodePointAt(bytes, at)) == spaces) {
    at += CharacterBytes(bytes, at);
  }
  return at;
}

size_t SkipSpacesBack(std::string_view bytes, size_t end, bool spaces) {
  while (end > 0) {
    const size_t last = CharacterBefore(bytes, end);
    if (IsSpace(CodePointAt(bytes, last)) != spaces) break;
    end = last;
  }
  return end;
}

}  // namespace

std::vector<TrackedString> Split(Execution& execution, const TrackedString& text,
                                 const TrackedString* separator, int64_t max) {
  std::vector<TrackedString> parts;
  const std::string_view bytes = text.bytes();
  execution.ChargeBytes(bytes.size());
  size_t begin = separator == nullptr ? SkipSpaces(bytes, 0, true) : 0;
  while (execution.Charge(1)) {
    const bool at_end = separator == nullptr && begin == bytes.size();
    if (at_end) return parts;
    size_t end = std::string_view::npos;
    if (max != 0) {
      end = separator == nullptr ? SkipSpaces(bytes, begin, false)
                                 : bytes.find(separator->bytes(), begin);
    }
    if (end == std::string_view::npos) {  // the rest, white space at its end included
      parts.push_back(Slice(execution, text, begin, bytes.size()));
      return parts;
    }
    parts.push_back(Slice(execution, text, begin, end));
    begin = separator == nullptr ? SkipSpaces(bytes, end, true) : end + separator->size();
    --max;
  }
  return parts;
}

std::vector<TrackedString> SplitFromRight(Execution& execution, const TrackedString& text,
                                          const TrackedString* separator, int64_t max) {
  std::vector<TrackedString> parts;
  const std::string_view bytes = text.bytes();
  execution.ChargeBytes(bytes.size());
  size_t end = separator == nullptr ? SkipSpacesBack(bytes, bytes.size(), true) : bytes.size();
  while (execution.Charge(1)) {
    if (separator == nullptr && end == 0) break;
    size_t cut = std::string_view::npos;  // where the part's separator begins
    size_t begin = 0;
    if (max != 0 && separator == nullptr) {
      begin = SkipSpacesBack(bytes, end, false);
      cut = SkipSpacesBack(bytes, begin, true);
    } else if (max != 0 && end >= separator->size()) {
      cut = bytes.rfind(separator->bytes(), end - separator->size());
      begin = cut == std::string_view::npos ? 0 : cut + separator->size();
    }
    parts.push_back(Slice(execution, text, begin, end));
    if (cut == std::string_view::npos) break;
    end = cut;
    --max;
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace octavo::jinja
