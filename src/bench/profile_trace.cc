#include "bench/profile_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <vector>

#include "bench/profile_report.h"

namespace octavo::bench {
namespace {

constexpr int kStepsTrack = 0;  // thread t has track t + 1

// Of names that are plain ASCII words.
class TraceWriter {
 public:
  explicit TraceWriter(const Profiler& profiler) : profiler_(profiler) {
    for (int thread = 0; thread < profiler.num_threads(); ++thread) {
      events_.push_back(profiler.Events(thread));
      if (!events_.back().empty()) begin_ns_ = std::min(begin_ns_, events_.back().front().begin_ns);
    }
  }

  std::string Write() {
    text_ = R"({"displayTimeUnit":"ms","otherData":{)";
    int64_t dropped = 0;
    for (int i = 0; i < profiler_.num_threads(); ++i) dropped += profiler_.NumDroppedEvents(i);
    Add(R"("num_dropped_events":{},"num_dropped_steps":{}}},"traceEvents":[)", dropped,
        profiler_.NumDroppedSteps());
    Add(R"({{"name":"process_name","ph":"M","pid":1,"args":{{"name":"octavo"}}}})");
    NameTrack(kStepsTrack, "steps");
    for (int thread = 0; thread < profiler_.num_threads(); ++thread) {
      NameTrack(thread + 1, fmt::format("thread {}", thread));
    }
    for (const ProfileStep& step : profiler_.Steps()) {
      if (step.begin_ns >= begin_ns_) AddStep(step);
    }
    for (size_t thread = 0; thread < events_.size(); ++thread) {
      for (const ProfileEvent& event : events_[thread]) AddEvent(thread, event);
    }
    text_ += "]}\n";
    return std::move(text_);
  }

 private:
  template <typename... Args>
  void Add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  void NameTrack(int track, std::string_view name) {
    Add(",\n"
        R"({{"name":"thread_name","ph":"M","pid":1,"tid":{0},"args":{{"name":"{1}"}}}},)"
        R"({{"name":"thread_sort_index","ph":"M","pid":1,"tid":{0},"args":{{"sort_index":{0}}}}})",
        track, name);
  }

  // A whole event, up to its arguments.
  void AddSpan(std::string_view name, size_t track, int64_t begin_ns, int64_t end_ns) {
    Add(",\n"
        R"({{"name":"{}","cat":"octavo","ph":"X","pid":1,"tid":{},"ts":{:.3f},"dur":{:.3f},)"
        R"("args":)",
        name, track, static_cast<double>(begin_ns - begin_ns_) / 1e3,
        static_cast<double>(end_ns - begin_ns) / 1e3);
  }

  void AddStep(const ProfileStep& step) {
    AddSpan(ProfileStepKindName(step.kind), kStepsTrack, step.begin_ns, step.end_ns);
    Add(R"({{"step":{},"tokens":{}}}}})", step.index, step.num_rows);
  }

  void AddEvent(size_t thread, const ProfileEvent& event) {
    AddSpan(ProfileZoneName(event.zone), thread + 1, event.begin_ns, event.end_ns);
    if (event.layer < 0) return Add(R"({{"step":{}}}}})", event.step);
    Add(R"({{"step":{},"layer":{}}}}})", event.step, event.layer);
  }

  const Profiler& profiler_;
  std::vector<std::vector<ProfileEvent>> events_;  // of each thread
  int64_t begin_ns_ = std::numeric_limits<int64_t>::max();
  std::string text_;
};

}  // namespace

std::string ProfileTraceJson(const Profiler& profiler) { return TraceWriter(profiler).Write(); }

}  // namespace octavo::bench
