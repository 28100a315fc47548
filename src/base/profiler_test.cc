// The recorder of a step's zones: what adds up, what is kept, what is dropped.

#include "octavo/profiler.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace octavo {
namespace {

constexpr auto kDecode = ProfileStepKind::kDecode;
constexpr auto kPrefill = ProfileStepKind::kPrefill;

// A step of one thread from `begin` to `begin` + 100 ns: 30 of plan, 60 of attention in layer 3.
void RecordStep(Profiler& profiler, ProfileStepKind kind, int64_t begin) {
  profiler.BeginStep(begin);
  profiler.Mark(0, ProfileZone::kPlan, begin + 30);
  profiler.SetLayer(0, 3);
  profiler.Mark(0, ProfileZone::kAttention, begin + 90);
  profiler.SetLayer(0, -1);
  profiler.EndStep(kind, 8, begin + 100);
}

TEST(ProfilerTest, AZoneReachesFromTheLastMarkToItsOwn) {
  Profiler profiler;
  profiler.Attach(1);
  RecordStep(profiler, kDecode, 1000);

  const std::vector<ProfileEvent> events = profiler.Events(0);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].begin_ns, 1000);
  EXPECT_EQ(events[0].end_ns, 1030);
  EXPECT_EQ(events[0].layer, -1);
  EXPECT_EQ(events[1].begin_ns, 1030);
  EXPECT_EQ(events[1].end_ns, 1090);
  EXPECT_EQ(events[1].layer, 3);
  EXPECT_EQ(events[1].zone, ProfileZone::kAttention);
  ASSERT_EQ(profiler.Steps().size(), 1u);
  EXPECT_EQ(profiler.Steps()[0].end_ns - profiler.Steps()[0].begin_ns, 100);
}

TEST(ProfilerTest, PrefillAndDecodeAreCountedApart) {
  Profiler profiler;
  profiler.Attach(1);
  RecordStep(profiler, kPrefill, 0);
  RecordStep(profiler, kDecode, 1000);
  RecordStep(profiler, kDecode, 2000);

  EXPECT_EQ(profiler.steps(kPrefill).num_steps, 1);
  EXPECT_EQ(profiler.steps(kDecode).num_steps, 2);
  EXPECT_EQ(profiler.steps(kDecode).num_rows, 16);
  EXPECT_EQ(profiler.steps(kDecode).total_ns, 200);
  EXPECT_EQ(profiler.zone(0, kPrefill, ProfileZone::kAttention).calls, 1);
  EXPECT_EQ(profiler.zone(0, kDecode, ProfileZone::kAttention).calls, 2);
  EXPECT_EQ(profiler.zone(0, kDecode, ProfileZone::kAttention).total_ns, 120);
  EXPECT_EQ(profiler.zone(0, kDecode, ProfileZone::kLogits).calls, 0);
}

TEST(ProfilerTest, WhatDoesNotFitDropsTheOldestAndTotalsCountAll) {
  Profiler profiler({.max_events = 3, .max_steps = 2});
  profiler.Attach(1);
  for (int64_t step = 0; step < 5; ++step) RecordStep(profiler, kDecode, 1000 * step);

  const std::vector<ProfileEvent> events = profiler.Events(0);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].step, 3u);
  EXPECT_EQ(events[0].zone, ProfileZone::kAttention);
  EXPECT_EQ(events[1].step, 4u);
  EXPECT_EQ(events[2].step, 4u);
  EXPECT_EQ(profiler.NumDroppedEvents(0), 7);
  ASSERT_EQ(profiler.Steps().size(), 2u);
  EXPECT_EQ(profiler.Steps()[0].index, 3u);
  EXPECT_EQ(profiler.NumDroppedSteps(), 3);
  EXPECT_EQ(profiler.steps(kDecode).num_steps, 5);
  EXPECT_EQ(profiler.zone(0, kDecode, ProfileZone::kPlan).total_ns, 150);
}

TEST(ProfilerTest, ARingThatIsExactlyFullHasDroppedNothing) {
  Profiler profiler({.max_events = 4, .max_steps = 2});
  profiler.Attach(1);
  RecordStep(profiler, kDecode, 0);
  RecordStep(profiler, kDecode, 1000);

  EXPECT_EQ(profiler.NumDroppedEvents(0), 0);
  EXPECT_EQ(profiler.NumDroppedSteps(), 0);
  EXPECT_EQ(profiler.Events(0).front().step, 0u);
}

TEST(ProfilerTest, TheTimeBeforeAThreadResumesBelongsToNoZone) {
  Profiler profiler;
  profiler.Attach(2);
  profiler.BeginStep(1000);
  profiler.Resume(1, 1040);
  profiler.Mark(1, ProfileZone::kLogits, 1050);
  profiler.EndStep(kDecode, 1, 1100);

  EXPECT_EQ(profiler.zone(1, kDecode, ProfileZone::kLogits).total_ns, 10);
  EXPECT_EQ(profiler.Events(1).front().begin_ns, 1040);
}

TEST(ProfilerTest, AnEngineWithMoreThreadsKeepsWhatTheOneBeforeHasRecorded) {
  Profiler profiler;
  profiler.Attach(1);
  RecordStep(profiler, kDecode, 0);
  profiler.Attach(3);
  profiler.Attach(2);

  EXPECT_EQ(profiler.num_threads(), 3);
  EXPECT_EQ(profiler.Events(0).size(), 2u);
  EXPECT_TRUE(profiler.Events(2).empty());
}

TEST(ProfilerTest, ThreadsShareTheRoomForEvents) {
  Profiler profiler({.max_events = 100, .max_steps = 1});
  profiler.Attach(4);
  profiler.BeginStep(0);
  for (int64_t i = 0; i < 60; ++i) profiler.Mark(2, ProfileZone::kDown, i);

  EXPECT_EQ(profiler.Events(2).size(), 25u);
  EXPECT_EQ(profiler.NumDroppedEvents(2), 35);
}

TEST(ProfilerTest, EveryZoneHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (size_t zone = 0; zone < kNumProfileZones; ++zone) {
    names.insert(ProfileZoneName(static_cast<ProfileZone>(zone)));
  }

  EXPECT_EQ(names.size(), kNumProfileZones);
  EXPECT_FALSE(names.contains(""));
  EXPECT_EQ(ProfileZoneName(ProfileZone::kPublish), "publish");
}

}  // namespace
}  // namespace octavo
