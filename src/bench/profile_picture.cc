#include "bench/profile_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "bench/profile_report.h"
#include "bench/svg_style.h"

namespace octavo::bench {
namespace {

// The picture, in pixels.
constexpr double kWidth = 900;
constexpr double kLeft = 140;  // of bars and timelines; names stand left of it
constexpr double kRight = kWidth - 24;
constexpr double kMargin = 24;
constexpr double kRowHeight = 20;
constexpr double kLaneHeight = 28;
constexpr double kColumnGap = 24;         // between the bars of prefill and of decode
constexpr double kValueWidth = 64;        // of "12.3 %" behind a bar
constexpr double kCharacterWidth = 7.2;   // of a text, about
constexpr int kMostLanes = 8;             // threads in a timeline
constexpr double kLeastShare = 0.000005;  // what would be shown as 0.00 % has no row

constexpr std::string_view kShapes =
    "text{font:13px system-ui,sans-serif}\n"
    ".title{font-size:16px;font-weight:600}\n"
    ".head{font-weight:600}\n"
    ".grid,.axis{stroke-width:1}\n"
    ".wait{fill-opacity:.3}\n"
    ".on{font-size:11px;fill:#fff}\n"
    "@media(prefers-color-scheme:dark){.on{fill:#0d1117}}\n";

// What a step spends most of its time in has a colour of its own, the rest is grey.
std::string_view ZoneClass(std::optional<ProfileZone> zone) {
  if (!zone) return "faint wait";
  switch (*zone) {
    case ProfileZone::kQueryKeyValue:
      return "f0";
    case ProfileZone::kAttention:
      return "f1";
    case ProfileZone::kAttentionOutput:
      return "f2";
    case ProfileZone::kGateUp:
      return "f3";
    case ProfileZone::kDown:
      return "f4";
    case ProfileZone::kNormQuantise:
      return "f5";
    case ProfileZone::kRotateStore:
      return "f6";
    case ProfileZone::kActivation:
      return "f7";
    case ProfileZone::kLogits:
      return "f8";
    case ProfileZone::kBarrierWait:
      return "faint wait";
    default:
      return "faint";
  }
}

// "2.41 ms", "78.3 us".
std::string Duration(double ns) {
  return ns >= 1e6 ? fmt::format("{:.4g} ms", ns / 1e6) : fmt::format("{:.4g} us", ns / 1e3);
}

// A part of a step.
struct Span {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

class Picture {
 public:
  explicit Picture(const Profiler& profiler)
      : profiler_(profiler), num_lanes_(std::min(profiler.num_threads(), kMostLanes)) {
    for (int thread = 0; thread < num_lanes_; ++thread) events_.push_back(profiler.Events(thread));
  }

  std::string Draw(std::string_view subtitle) {
    Text(kMargin, 30, "title", "start", "Where the time of a step goes");
    Text(kMargin, 51, "faint", "start", subtitle);
    Text(kRight, 51, "faint", "end", "shares of all threads' time; idle: no zone");
    y_ = 80;
    DrawShares();
    for (const auto kind : {ProfileStepKind::kPrefill, ProfileStepKind::kDecode}) {
      if (const auto step = TypicalStep(profiler_, kind)) DrawStep(*step);
    }
    return fmt::format(
               R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1:.0f}" width="{0}" )"
               R"(height="{1:.0f}" role="img" aria-label="Where the time of a step goes">)"
               "\n{2}<rect width=\"{0}\" height=\"{1:.0f}\" class=\"paper\"/>\n",
               kWidth, y_ + 8, SvgStyle(kShapes, kNumSvgColours)) +
           svg_ + "</svg>\n";
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

  // One row for each zone, with a bar for each kind of step.
  void DrawShares() {
    constexpr std::array kKinds = {ProfileStepKind::kPrefill, ProfileStepKind::kDecode};
    std::array<std::vector<ProfileLine>, kKinds.size()> lines;
    double most = 0;
    for (size_t kind = 0; kind < kKinds.size(); ++kind) {
      lines[kind] = ProfileLines(profiler_, kKinds[kind]);
      for (const ProfileLine& line : lines[kind]) most = std::max(most, line.share);
      const ProfileStepTotal steps = profiler_.steps(kKinds[kind]);
      if (steps.num_steps == 0) continue;
      const double mean_ns =
          static_cast<double>(steps.total_ns) / static_cast<double>(steps.num_steps);
      Text(ColumnLeft(kind), y_, "head", "start",
           fmt::format("{}: {} steps, {} tokens, {} a step", ProfileStepKindName(kKinds[kind]),
                       steps.num_steps, steps.num_rows, Duration(mean_ns)));
    }
    for (size_t zone = 0; zone <= kNumProfileZones; ++zone) DrawShareRow(zone, lines, most);
    y_ += 2 * kRowHeight;
  }

  static double ColumnWidth() { return (kRight - kLeft - kColumnGap) / 2; }
  static double ColumnLeft(size_t kind) {
    return kLeft + static_cast<double>(kind) * (ColumnWidth() + kColumnGap);
  }

  // `zone` == kNumProfileZones is what no zone covers.
  void DrawShareRow(size_t zone, const std::array<std::vector<ProfileLine>, 2>& lines,
                    double most) {
    bool is_named = false;
    for (size_t kind = 0; kind < lines.size(); ++kind) {
      const auto line = std::ranges::find_if(lines[kind], [zone](const ProfileLine& candidate) {
        return (candidate.zone ? static_cast<size_t>(*candidate.zone) : kNumProfileZones) == zone;
      });
      if (line == lines[kind].end() || line->share < kLeastShare) continue;
      if (!is_named) {
        y_ += kRowHeight;
        Text(kLeft - 10, y_ + 4, "", "end", line->name);
      }
      is_named = true;
      const double width = (ColumnWidth() - kValueWidth) * line->share / most;
      Add("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"14\" class=\"{}\"/>\n",
          ColumnLeft(kind), y_ - 7, width, ZoneClass(line->zone));
      Text(ColumnLeft(kind) + width + 6, y_ + 4, "faint", "start",
           fmt::format("{:.2f} %", 100.0 * line->share));
    }
  }

  // The whole step, and the layer in its middle.
  void DrawStep(const ProfileStep& step) {
    DrawTimeline(fmt::format("A {} step of {} {} (the median): {}", ProfileStepKindName(step.kind),
                             step.num_rows, step.num_rows == 1 ? "token" : "tokens",
                             Duration(static_cast<double>(step.end_ns - step.begin_ns))),
                 step, {step.begin_ns, step.end_ns});
    const std::optional<std::pair<int, Span>> layer = MiddleLayer(step);
    if (!layer) return;
    const auto& [index, span] = *layer;
    DrawTimeline(fmt::format("Its layer {}: {}", index,
                             Duration(static_cast<double>(span.end_ns - span.begin_ns))),
                 step, span);
  }

  std::optional<std::pair<int, Span>> MiddleLayer(const ProfileStep& step) const {
    int last = -1;
    for (const ProfileEvent& event : events_.front()) {
      if (event.step == step.index) last = std::max<int>(last, event.layer);
    }
    if (last < 0) return std::nullopt;
    Span span{step.end_ns, step.begin_ns};
    for (const std::vector<ProfileEvent>& events : events_) {
      for (const ProfileEvent& event : events) {
        if (event.step != step.index || event.layer != last / 2) continue;
        span.begin_ns = std::min(span.begin_ns, event.begin_ns);
        span.end_ns = std::max(span.end_ns, event.end_ns);
      }
    }
    return std::pair(last / 2, span);
  }

  void DrawTimeline(std::string_view heading, const ProfileStep& step, Span span) {
    Text(kMargin, y_, "head", "start", heading);
    y_ += 12;
    for (int thread = 0; thread < num_lanes_; ++thread) {
      Text(kLeft - 10, y_ + kLaneHeight / 2 + 3, "", "end", fmt::format("thread {}", thread));
      for (const ProfileEvent& event : events_[static_cast<size_t>(thread)]) {
        if (event.step == step.index) DrawEvent(event, span);
      }
      y_ += kLaneHeight;
    }
    DrawTimeAxis(span);
    if (num_lanes_ < profiler_.num_threads()) {
      Text(kMargin, y_ + 14, "faint", "start",
           fmt::format("{} more threads are not shown", profiler_.num_threads() - num_lanes_));
    }
    y_ += 52;
  }

  static double PixelX(Span span, int64_t ns) {
    return kLeft + (kRight - kLeft) * static_cast<double>(ns - span.begin_ns) /
                       static_cast<double>(span.end_ns - span.begin_ns);
  }

  void DrawEvent(const ProfileEvent& event, Span span) {
    if (event.begin_ns < span.begin_ns || event.end_ns > span.end_ns) return;
    const double x = PixelX(span, event.begin_ns);
    const double width = PixelX(span, event.end_ns) - x;
    if (width < 0.02) return;  // nobody could see it
    const std::string_view name = ProfileZoneName(event.zone);
    Add("<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" class=\"{}\">"
        "<title>{}{}: {}</title></rect>\n",
        x, y_, width, kLaneHeight - 4, ZoneClass(event.zone),
        event.layer < 0 ? "" : fmt::format("layer {}, ", event.layer), name,
        Duration(static_cast<double>(event.end_ns - event.begin_ns)));
    if (width < kCharacterWidth * static_cast<double>(name.size()) + 4) return;
    const bool is_wait = event.zone == ProfileZone::kBarrierWait;
    Text(x + width / 2, y_ + kLaneHeight / 2 + 2, is_wait ? "" : "on", "middle", name);
  }

  // About eight round ticks.
  void DrawTimeAxis(Span span) {
    const auto length = static_cast<double>(span.end_ns - span.begin_ns);
    const double power = std::pow(10.0, std::floor(std::log10(length / 8)));
    double step = 10.0 * power;
    for (const double factor : {5.0, 2.0}) {
      if (length / (factor * power) <= 10) step = factor * power;
    }
    for (int i = 0; i * step <= length; ++i) {
      const double x = kLeft + (kRight - kLeft) * i * step / length;
      Add("<line class=\"axis\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>\n", x,
          y_, y_ + 5);
      Text(x, y_ + 18, "faint", "middle", i == 0 ? "0" : Duration(i * step));
    }
  }

  const Profiler& profiler_;
  const int num_lanes_;
  std::vector<std::vector<ProfileEvent>> events_;  // [num_lanes]
  double y_ = 0;                                   // where the next thing is drawn
  std::string svg_;
};

}  // namespace

std::string ProfilePicture(const Profiler& profiler, std::string_view subtitle) {
  return Picture(profiler).Draw(subtitle);
}

}  // namespace octavo::bench
