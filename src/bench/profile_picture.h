#pragma once

// Purpose:    a profile as an SVG picture: each zone's share of prefill and of decode, and a
//             typical step as a timeline, with a layer of it magnified.
// Ownership:  borrows the Profiler during the call.
// Threading:  as the queries of Profiler.
// Invariants: as svg_style.h: well-formed, self-contained, readable in light and dark.

#include <string>
#include <string_view>

#include "octavo/profiler.h"

namespace octavo::bench {

// `subtitle` says what was run on what.
std::string ProfilePicture(const Profiler& profiler, std::string_view subtitle);

}  // namespace octavo::bench
