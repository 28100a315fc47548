#include <ctime>

#include "jinja/template.h"

namespace octavo::jinja {
namespace {

// What gives the same text in Python and does not depend on a locale or on a time zone.
constexpr std::string_view kConversions = "aAbBdDeFhHIjklmMnpPrRStTuUVwWyYCGg%";
constexpr std::string_view kFlags = "-_0^#";

}  // namespace

std::optional<std::string> FormatCivilTime(const std::tm& time, std::string_view format) {
  std::string text;
  for (size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%') {
      text += format[at];
      continue;
    }
    std::string conversion = "%";
    if (at + 1 < format.size() && kFlags.find(format[at + 1]) != std::string_view::npos) {
      conversion += format[++at];
    }
    if (++at == format.size() || kConversions.find(format[at]) == std::string_view::npos) {
      return std::nullopt;
    }
    conversion += format[at];
    char buffer[64];
    const size_t size = std::strftime(buffer, sizeof buffer, conversion.c_str(), &time);
    text.append(buffer, size);
  }
  return text;
}

}  // namespace octavo::jinja
