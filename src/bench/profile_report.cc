#include "bench/profile_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>

namespace octavo::bench {
namespace {

// More threads than these would not fit into a terminal's line: then the least and the most.
constexpr int kMostThreadColumns = 4;

constexpr std::string_view kIdleName = "idle";

std::string ThreadCells(const ProfileLine& line) {
  const std::vector<double>& threads = line.thread_us_per_step;
  if (threads.size() > kMostThreadColumns) {
    const auto [least, most] = std::ranges::minmax(threads);
    return fmt::format(" {:10.1f} {:10.1f}", least, most);
  }
  std::string cells;
  for (const double us : threads) cells += fmt::format(" {:10.1f}", us);
  return cells;
}

std::string ThreadHeadings(int num_threads) {
  if (num_threads > kMostThreadColumns) return fmt::format(" {:>10} {:>10}", "least", "most");
  std::string cells;
  for (int thread = 0; thread < num_threads; ++thread) {
    cells += fmt::format(" {:>10}", fmt::format("thread {}", thread));
  }
  return cells;
}

std::string TableOf(const Profiler& profiler, ProfileStepKind kind) {
  const ProfileStepTotal steps = profiler.steps(kind);
  const double num_steps = static_cast<double>(steps.num_steps);
  std::string text = fmt::format(
      "{}: {} steps, {} tokens, {:.3f} ms a step\n"
      "  {:<16} {:>9} {:>11} {:>8}   us per step on{}\n",
      ProfileStepKindName(kind), steps.num_steps, steps.num_rows,
      static_cast<double>(steps.total_ns) / 1e6 / num_steps, "zone", "calls", "total ms", "share",
      ThreadHeadings(profiler.num_threads()));
  for (const ProfileLine& line : ProfileLines(profiler, kind)) {
    text += fmt::format("  {:<16} {:>9} {:11.3f} {:6.2f} %                {}\n", line.name,
                        line.zone ? fmt::to_string(line.calls) : "", line.total_ms,
                        100.0 * line.share, ThreadCells(line));
  }
  return text;
}

std::string DroppedNote(const Profiler& profiler) {
  int64_t kept = 0;
  int64_t dropped = 0;
  for (int thread = 0; thread < profiler.num_threads(); ++thread) {
    kept += std::ssize(profiler.Events(thread));
    dropped += profiler.NumDroppedEvents(thread);
  }
  return fmt::format("events: {} kept, {} older ones dropped; the table counts all\n", kept,
                     dropped);
}

// The first step of which no thread has dropped an event.
uint32_t FirstWholeStep(const Profiler& profiler) {
  uint32_t first = 0;
  for (int thread = 0; thread < profiler.num_threads(); ++thread) {
    if (profiler.NumDroppedEvents(thread) == 0) continue;
    first = std::max(first, profiler.Events(thread).front().step + 1);
  }
  return first;
}

}  // namespace

std::string_view ProfileStepKindName(ProfileStepKind kind) {
  return kind == ProfileStepKind::kPrefill ? "prefill" : "decode";
}

std::vector<ProfileLine> ProfileLines(const Profiler& profiler, ProfileStepKind kind) {
  const ProfileStepTotal steps = profiler.steps(kind);
  const int num_threads = profiler.num_threads();
  if (steps.num_steps == 0) return {};
  const double num_steps = static_cast<double>(steps.num_steps);
  const double thread_ns = static_cast<double>(steps.total_ns);
  std::vector<double> idle_ns(static_cast<size_t>(num_threads), thread_ns);
  std::vector<ProfileLine> lines;
  const auto add_line = [&](ProfileLine line, const std::vector<double>& ns_of_thread) {
    const double total_ns = std::accumulate(ns_of_thread.begin(), ns_of_thread.end(), 0.0);
    line.total_ms = total_ns / 1e6;
    line.share = total_ns / (thread_ns * num_threads);
    for (const double ns : ns_of_thread) line.thread_us_per_step.push_back(ns / 1e3 / num_steps);
    lines.push_back(std::move(line));
  };
  for (size_t i = 0; i < kNumProfileZones; ++i) {
    const auto zone = static_cast<ProfileZone>(i);
    ProfileLine line{ProfileZoneName(zone), zone, 0, 0, 0, {}};
    std::vector<double> ns_of_thread;
    for (int thread = 0; thread < num_threads; ++thread) {
      const ProfileZoneTotal total = profiler.zone(thread, kind, zone);
      line.calls += total.calls;
      ns_of_thread.push_back(static_cast<double>(total.total_ns));
      idle_ns[static_cast<size_t>(thread)] -= ns_of_thread.back();
    }
    if (line.calls > 0) add_line(std::move(line), ns_of_thread);
  }
  add_line({kIdleName, std::nullopt, 0, 0, 0, {}}, idle_ns);
  return lines;
}

std::string ProfileTable(const Profiler& profiler) {
  std::string text;
  for (const ProfileStepKind kind : {ProfileStepKind::kPrefill, ProfileStepKind::kDecode}) {
    if (profiler.steps(kind).num_steps > 0) text += TableOf(profiler, kind);
  }
  if (text.empty()) return "profile: no step was computed\n";
  return text + DroppedNote(profiler);
}

std::optional<ProfileStep> TypicalStep(const Profiler& profiler, ProfileStepKind kind) {
  const uint32_t first_whole = FirstWholeStep(profiler);
  std::vector<ProfileStep> steps = profiler.Steps();
  std::erase_if(steps, [&](const ProfileStep& step) {
    return step.kind != kind || step.index < first_whole;
  });
  if (steps.empty()) return std::nullopt;
  const auto middle = steps.begin() + std::ssize(steps) / 2;
  std::ranges::nth_element(steps, middle, {},
                           [](const ProfileStep& step) { return step.end_ns - step.begin_ns; });
  return *middle;
}

}  // namespace octavo::bench
