// What a plan costs: 256 sequences run, 64 wait. The aim is 200 us.

#include <benchmark/benchmark.h>

#include "engine/scheduling/scheduler.h"

namespace octavo::engine {
namespace {

constexpr uint32_t kNumRunning = 256;
constexpr uint32_t kNumWaiting = 64;

SchedulerSnapshot MakeSnapshot() {
  SchedulerSnapshot snapshot;
  snapshot.limits.block_size_tokens = 16;
  snapshot.limits.max_num_batched_tokens = 16384;
  snapshot.limits.max_num_seqs = kNumRunning + kNumWaiting;
  snapshot.limits.watermark_blocks = 16;
  snapshot.num_available_blocks = 10000;
  for (uint32_t i = 0; i < kNumRunning; ++i) {
    RunningView view;
    view.id = i;
    view.unit = i;
    view.arrival = i;
    view.num_computed = 100 + 7 * i;
    view.num_tokens = view.num_computed + 1;
    view.num_held_blocks = static_cast<uint32_t>((view.num_computed + 15) / 16);
    view.capacity_tokens = int64_t{view.num_held_blocks} * 16;
    snapshot.running.push_back(view);
  }
  for (uint32_t i = 0; i < kNumWaiting; ++i) {
    WaitingView view;
    view.id = kNumRunning + i;
    view.arrival = view.id;
    view.num_tokens = 200;
    view.num_cached = 70;
    view.num_shared_blocks = 4;
    view.num_idle_blocks = 1;
    snapshot.waiting.push_back(view);
  }
  return snapshot;
}

void MeasurePlan(benchmark::State& state, const SchedulerSnapshot& snapshot) {
  StepPlan plan;
  for (auto _ : state) {
    Scheduler::Plan(snapshot, &plan);
    benchmark::DoNotOptimize(plan.scheduled.data());
    benchmark::DoNotOptimize(plan.admitted.data());
  }
  state.counters["scheduled"] = static_cast<double>(plan.scheduled.size());
  state.counters["admitted"] = static_cast<double>(plan.admitted.size());
  state.counters["preempts"] = plan.preempt != kNoSequence ? 1 : 0;
}

// Everybody goes on, and all who wait are admitted.
void Steady(benchmark::State& state) { MeasurePlan(state, MakeSnapshot()); }
BENCHMARK(Steady)->Name("plan/256_running_64_admitted")->Unit(benchmark::kMicrosecond);

// Each candidate waits for the tokens of another sequence that runs.
void Dependent(benchmark::State& state) {
  SchedulerSnapshot snapshot = MakeSnapshot();
  for (uint32_t i = 0; i < kNumWaiting; ++i) {
    const uint32_t target = kNumRunning - 1 - i;
    snapshot.running[target].num_tokens += 20;
    snapshot.waiting[i].depends_on = target;
    snapshot.waiting[i].depends_until = snapshot.running[target].num_tokens;
  }
  MeasurePlan(state, snapshot);
}
BENCHMARK(Dependent)->Name("plan/256_running_64_dependent")->Unit(benchmark::kMicrosecond);

// The last decode lacks a block: the victim is looked for, and its cost.
void Short(benchmark::State& state) {
  SchedulerSnapshot snapshot = MakeSnapshot();
  uint32_t num_needed = 0;
  for (const RunningView& view : snapshot.running) {
    num_needed += view.num_computed == view.capacity_tokens;
  }
  snapshot.num_available_blocks = num_needed - 1;
  MeasurePlan(state, snapshot);
}
BENCHMARK(Short)->Name("plan/256_running_preempt")->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace octavo::engine

BENCHMARK_MAIN();
