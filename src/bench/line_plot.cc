#include "bench/line_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "bench/svg_style.h"

namespace octavo::bench {
namespace {

// The picture, in pixels.
constexpr double kWidth = 760;
constexpr double kHeight = 440;
constexpr double kLeft = 72;  // of the area where lines are drawn
constexpr double kRight = kWidth - 24;
constexpr double kTop = 92;
constexpr double kBottom = kHeight - 62;
constexpr double kLegendBaseline = 76;
constexpr double kLegendLine = 26;       // length of a legend entry's line
constexpr double kCharacterWidth = 7.2;  // of a legend's text, about

constexpr int kMostTicks = 6;
constexpr size_t kNumColours = 6;

constexpr std::string_view kShapes =
    "text{font:13px system-ui,sans-serif}\n"
    ".title{font-size:16px;font-weight:600}\n"
    ".grid,.axis{stroke-width:1}\n"
    ".line{fill:none;stroke-width:2.2;stroke-linejoin:round}\n"
    ".bound{fill:none;stroke-width:1.6;stroke-dasharray:6 4}\n";

// 1536 -> "1.5 Ki", 1048576 -> "1 Mi".
std::string BinaryNumber(double value) {
  constexpr std::array<std::string_view, 5> kUnits = {"", "Ki", "Mi", "Gi", "Ti"};
  size_t unit = 0;
  while (unit + 1 < kUnits.size() && value >= 1024.0) {
    value /= 1024.0;
    ++unit;
  }
  return fmt::format("{:.4g} {}", value, kUnits[unit]);
}

struct Axis {
  double low = 0;   // in the axis's own unit: a value, or its log2
  double high = 1;  // > low
  double step = 1;  // between ticks
};

// The least of 1, 2 and 5 times a power of ten that leaves at most kMostTicks steps.
double RoundStep(double span) {
  const double power = std::pow(10.0, std::floor(std::log10(span / kMostTicks)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (span / (factor * power) <= kMostTicks) return factor * power;
  }
  return 10.0 * power;
}

class Drawing {
 public:
  explicit Drawing(const LinePlot& plot) : plot_(plot) {
    double x_low = std::numeric_limits<double>::infinity();
    double x_high = -x_low;
    double y_high = 0.0;
    for (const PlotSeries& series : plot.series) {
      for (const auto& [x, y] : series.points) {
        if (!IsDrawn(x, y)) continue;
        x_low = std::min(x_low, Scaled(x));
        x_high = std::max(x_high, Scaled(x));
        y_high = std::max(y_high, y);
      }
    }
    SetXAxis(x_low, x_high);
    y_axis_.high = y_high > 0.0 ? y_high : 1.0;
    y_axis_.step = RoundStep(y_axis_.high);
    y_axis_.high = y_axis_.step * std::ceil(y_axis_.high / y_axis_.step - 1e-9);
  }

  std::string Draw() {
    Add(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" )"
        R"(height="{1}" role="img" aria-label="{2}">)"
        "\n",
        kWidth, kHeight, SvgEscaped(plot_.title));
    svg_ += SvgStyle(kShapes, kNumColours);
    Add("<rect width=\"{}\" height=\"{}\" class=\"paper\"/>\n", kWidth, kHeight);
    Text(kLeft, 28, "title", "start", plot_.title);
    Text(kLeft, 49, "faint", "start", plot_.subtitle);
    DrawAxes();
    DrawLegend();
    for (size_t i = 0; i < plot_.series.size(); ++i) DrawSeries(i);
    svg_ += "</svg>\n";
    return std::move(svg_);
  }

 private:
  template <typename... Args>
  void Add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(svg_), format, std::forward<Args>(args)...);
  }

  void Text(double x, double y, std::string_view css_class, std::string_view anchor,
            std::string_view text) {
    if (text.empty()) return;
    Add("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\" text-anchor=\"{}\">{}</text>\n", x, y,
        css_class, anchor, SvgEscaped(text));
  }

  bool IsDrawn(double x, double y) const {
    const bool has_place = plot_.x_scale == AxisScale::kLinear || x > 0.0;
    return has_place && std::isfinite(x) && std::isfinite(y);
  }
  double Scaled(double x) const { return plot_.x_scale == AxisScale::kLog2 ? std::log2(x) : x; }

  void SetXAxis(double low, double high) {
    if (!(low <= high)) low = 0.0, high = 1.0;  // nothing to draw
    if (low == high) low -= 0.5, high += 0.5;
    x_axis_ = {low, high, 0.0};
    x_axis_.step = plot_.x_scale == AxisScale::kLog2
                       ? std::max(1.0, std::ceil((high - low) / (2.0 * kMostTicks)))
                       : RoundStep(high - low);
  }

  double PixelX(double scaled) const {
    return kLeft + (kRight - kLeft) * (scaled - x_axis_.low) / (x_axis_.high - x_axis_.low);
  }
  double PixelY(double y) const {
    return kBottom - (kBottom - kTop) * (y - y_axis_.low) / (y_axis_.high - y_axis_.low);
  }

  void DrawAxes() {
    const auto num_rows = static_cast<int>(std::lround(y_axis_.high / y_axis_.step));
    for (int i = 0; i <= num_rows; ++i) {
      const double value = y_axis_.step * i;
      const double y = PixelY(value);
      Add("<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>\n", kLeft,
          kRight, y, y);
      Text(
          kLeft - 8, y + 4, "faint", "end",
          plot_.y_is_share ? fmt::format("{:.4g} %", 100.0 * value) : fmt::format("{:.4g}", value));
    }
    const double first = std::ceil(x_axis_.low / x_axis_.step - 1e-9) * x_axis_.step;
    for (int i = 0; first + i * x_axis_.step <= x_axis_.high + 1e-9 * x_axis_.step; ++i) {
      const double scaled = first + i * x_axis_.step;
      const double x = PixelX(scaled);
      Add("<line class=\"axis\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>\n", x, x,
          kBottom, kBottom + 5);
      Text(x, kBottom + 20, "faint", "middle",
           plot_.x_scale == AxisScale::kLog2 ? BinaryNumber(std::exp2(scaled))
                                             : fmt::format("{:.4g}", scaled));
    }
    Add("<line class=\"axis\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>\n", kLeft,
        kRight, kBottom, kBottom);
    Text((kLeft + kRight) / 2, kHeight - 16, "", "middle", plot_.x_label);
    Add("<text transform=\"translate(18 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
        (kTop + kBottom) / 2, SvgEscaped(plot_.y_label));
  }

  void DrawLegend() {
    double x = kLeft;
    for (size_t i = 0; i < plot_.series.size(); ++i) {
      const double y = kLegendBaseline - 4;
      Add("<path {} d=\"M{:.1f} {:.1f}h{:.1f}\"/>\n", LineStyle(i), x, y, kLegendLine);
      if (!plot_.series[i].is_bound) DrawMarker(i, x + kLegendLine / 2, y);
      Text(x + kLegendLine + 6, kLegendBaseline, "", "start", plot_.series[i].name);
      x += kLegendLine + 28 + kCharacterWidth * static_cast<double>(plot_.series[i].name.size());
    }
  }

  std::string LineStyle(size_t index) const {
    if (plot_.series[index].is_bound) return "class=\"bound\"";
    return fmt::format("class=\"line s{}\"", index % kNumColours);
  }

  // Circle, square, triangle and diamond in turn.
  void DrawMarker(size_t index, double x, double y) {
    constexpr std::array<std::string_view, 3> kMarkers = {"m-4 -4h8v8h-8z", "m0 -5l5 9h-10z",
                                                          "m0 -5.5l5.5 5.5l-5.5 5.5l-5.5 -5.5z"};
    const size_t colour = index % kNumColours;
    if (index % 4 == 0) {
      Add("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" class=\"f{}\"/>\n", x, y, colour);
    } else {
      Add("<path d=\"M{:.1f} {:.1f}{}\" class=\"f{}\"/>\n", x, y, kMarkers[index % 4 - 1], colour);
    }
  }

  void DrawSeries(size_t index) {
    const PlotSeries& series = plot_.series[index];
    std::string path;
    for (const auto& [x, y] : series.points) {
      if (!IsDrawn(x, y)) continue;
      fmt::format_to(std::back_inserter(path), "{}{:.1f} {:.1f}", path.empty() ? "M" : "L",
                     PixelX(Scaled(x)), PixelY(y));
    }
    if (path.empty()) return;
    Add("<path {} d=\"{}\"/>\n", LineStyle(index), path);
    if (series.is_bound) return;
    for (const auto& [x, y] : series.points) {
      if (IsDrawn(x, y)) DrawMarker(index, PixelX(Scaled(x)), PixelY(y));
    }
  }

  const LinePlot& plot_;
  Axis x_axis_;
  Axis y_axis_;
  std::string svg_;
};

}  // namespace

std::string PlotSvg(const LinePlot& plot) { return Drawing(plot).Draw(); }

}  // namespace octavo::bench
