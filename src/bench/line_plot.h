#pragma once

// Purpose:    line plots as SVG files, for measurements: axes with round ticks, a grid, a legend,
//             readable in light and dark.
// Ownership:  plain values.
// Threading:  any.
// Invariants: the result is well-formed XML whatever the texts hold, and shows in a browser and in
//             an <img> without scripts or fonts of its own. The same plot gives the same bytes.

#include <string>
#include <utility>
#include <vector>

namespace octavo::bench {

struct PlotSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  // (x, y), drawn in this order
  bool is_bound = false;  // a dashed line without markers: what the others are measured against
};

enum class AxisScale { kLinear, kLog2 };

struct LinePlot {
  std::string title;
  std::string subtitle;  // may be empty
  std::string x_label;
  std::string y_label;
  AxisScale x_scale = AxisScale::kLinear;
  bool y_is_share = false;  // y is 0..1 and shown in per cent
  std::vector<PlotSeries> series;
};

// The y axis begins at 0. Points that are not finite, and with kLog2 points with x <= 0, are left
// out.
std::string PlotSvg(const LinePlot& plot);

}  // namespace octavo::bench
