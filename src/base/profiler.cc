#include "octavo/profiler.h"

#include <algorithm>

#include "base/check.h"

namespace octavo {
namespace {

constexpr std::array<std::string_view, kNumProfileZones> kZoneNames = {
    "plan",           "batch",        "embed",          "norm + quantise", "QKV product",
    "rotate + store", "attention",    "output product", "gate + up",       "activation",
    "down product",   "barrier wait", "output norm",    "commit",          "logits",
    "sample",         "publish"};

// The held part of a ring into which `count` elements were put, the oldest first.
template <typename T>
std::vector<T> InOrder(const std::vector<T>& ring, int64_t count) {
  const auto size = static_cast<int64_t>(ring.size());
  if (count <= size) return {ring.begin(), ring.begin() + count};
  std::vector<T> held(ring.size());
  std::rotate_copy(ring.begin(), ring.begin() + count % size, ring.end(), held.begin());
  return held;
}

}  // namespace

std::string_view ProfileZoneName(ProfileZone zone) { return kZoneNames[static_cast<size_t>(zone)]; }

Profiler::Profiler(const Options& options) : options_(options) {
  OCTAVO_CHECK(options.max_events >= 1 && options.max_steps >= 1, "room for an event and a step");
}

void Profiler::Attach(int num_threads) {
  OCTAVO_CHECK(num_threads >= 1, "a step has a thread");
  steps_.resize(static_cast<size_t>(options_.max_steps));
  const int64_t events = std::max<int64_t>(options_.max_events / num_threads, 1);
  while (this->num_threads() < num_threads) {
    records_.emplace_back().events.resize(static_cast<size_t>(events));
  }
}

void Profiler::BeginStep(int64_t now_ns) {
  step_begin_ns_ = now_ns;
  Resume(0, now_ns);
}

void Profiler::EndStep(ProfileStepKind kind, int64_t num_rows, int64_t now_ns) {
  steps_[num_steps_ % steps_.size()] = {num_steps_, kind, step_begin_ns_, now_ns, num_rows};
  ++num_steps_;
  ProfileStepTotal& total = step_totals_[static_cast<size_t>(kind)];
  ++total.num_steps;
  total.num_rows += num_rows;
  total.total_ns += now_ns - step_begin_ns_;
  for (Record& record : records_) {
    ZoneTotals& totals = record.totals[static_cast<size_t>(kind)];
    for (size_t zone = 0; zone < kNumProfileZones; ++zone) {
      totals[zone].calls += record.of_step[zone].calls;
      totals[zone].total_ns += record.of_step[zone].total_ns;
    }
    record.of_step = {};
  }
}

std::vector<ProfileEvent> Profiler::Events(int thread) const {
  const Record& record = records_[static_cast<size_t>(thread)];
  return InOrder(record.events, record.num_events);
}

std::vector<ProfileStep> Profiler::Steps() const { return InOrder(steps_, num_steps_); }

int64_t Profiler::NumDroppedEvents(int thread) const {
  const Record& record = records_[static_cast<size_t>(thread)];
  return std::max<int64_t>(record.num_events - std::ssize(record.events), 0);
}

int64_t Profiler::NumDroppedSteps() const {
  return std::max<int64_t>(num_steps_ - std::ssize(steps_), 0);
}

}  // namespace octavo
