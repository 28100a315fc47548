#include "bench/svg_style.h"

#include <fmt/format.h>

#include <array>

#include "base/check.h"

namespace octavo::bench {
namespace {

// The colours of one scheme, as CSS. Without variables, which some viewers do not know.
struct Scheme {
  std::string_view paper;
  std::string_view ink;
  std::string_view faint;
  std::string_view grid;
  std::array<std::string_view, kNumSvgColours> lines;
};

// Colours that people with the usual colour blindnesses tell apart (after Okabe and Ito), darker on
// white and lighter on black. Markers differ as well.
constexpr Scheme kLight = {"#ffffff",
                           "#1f2328",
                           "#59636e",
                           "#d8dee4",
                           {"#0063a8", "#c04a00", "#00795b", "#a33f7c", "#7a6200", "#3a3a9e",
                            "#a8173b", "#4a6b00", "#8a3b12"}};
constexpr Scheme kDark = {"#0d1117",
                          "#e6edf3",
                          "#9198a1",
                          "#30363d",
                          {"#56b4e9", "#ff9a4d", "#3fd0a4", "#e58fc0", "#e8d44d", "#a5a5ff",
                           "#ff8095", "#b5d94c", "#d6a27c"}};

std::string ColourRules(const Scheme& scheme, size_t num_colours) {
  std::string rules = fmt::format(
      ".paper{{fill:{}}}text{{fill:{}}}.faint{{fill:{}}}.grid{{stroke:{}}}.axis,.bound{{stroke:{}}}"
      "\n",
      scheme.paper, scheme.ink, scheme.faint, scheme.grid, scheme.faint);
  for (size_t i = 0; i < num_colours; ++i) {
    rules += fmt::format(".s{0}{{stroke:{1}}}.f{0}{{fill:{1}}}", i, scheme.lines[i]);
  }
  return rules + "\n";
}

}  // namespace

std::string SvgStyle(std::string_view shapes, size_t num_colours) {
  OCTAVO_CHECK(num_colours <= kNumSvgColours, "colours that there are");
  return fmt::format("<style>\n{}{}@media(prefers-color-scheme:dark){{\n{}}}\n</style>\n", shapes,
                     ColourRules(kLight, num_colours), ColourRules(kDark, num_colours));
}

std::string SvgEscaped(std::string_view text) {
  std::string escaped;
  for (const char byte : text) {
    switch (byte) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        // XML has no way to write the other control characters.
        escaped += static_cast<unsigned char>(byte) < 0x20 || byte == 0x7F ? ' ' : byte;
    }
  }
  return escaped;
}

}  // namespace octavo::bench
