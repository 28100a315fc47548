#pragma once

// Purpose:    what the pictures of measurements share: colours for light and dark, and texts that
//             are safe inside XML.
// Ownership:  plain values.
// Threading:  any.
// Invariants: the style needs no font, script or variable of its own, so that it works in an <img>.

#include <cstddef>
#include <string>
#include <string_view>

namespace octavo::bench {

inline constexpr size_t kNumSvgColours = 9;

// A <style> element: `shapes` as it is, then for each colour scheme the fills of .paper, text and
// .faint, the strokes of .grid, .axis and .bound, and of the first `num_colours` colours .sN
// (stroke) and .fN (fill). REQUIRES: num_colours <= kNumSvgColours.
std::string SvgStyle(std::string_view shapes, size_t num_colours);

// `text` as an element's text or an attribute's value.
std::string SvgEscaped(std::string_view text);

}  // namespace octavo::bench
