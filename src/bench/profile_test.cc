// A profile as table, trace and picture.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <map>
#include <string>
#include <vector>

#include "bench/profile_picture.h"
#include "bench/profile_report.h"
#include "bench/profile_test_data.h"
#include "bench/profile_trace.h"

namespace octavo::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kDecode = ProfileStepKind::kDecode;
constexpr auto kPrefill = ProfileStepKind::kPrefill;

TEST(ProfileReportTest, SharesOfAllLinesAddUpToOne) {
  Profiler profiler;
  RecordTestProfile(profiler);

  for (const ProfileStepKind kind : {kPrefill, kDecode}) {
    double sum = 0;
    for (const ProfileLine& line : ProfileLines(profiler, kind)) sum += line.share;
    EXPECT_DOUBLE_EQ(sum, 1.0);
  }
}

// 600 us of decode steps on two threads: thread 0 plans a tenth of them, and thread 1 is idle then
// and at the end.
TEST(ProfileReportTest, LinesHaveTheZonesThatWereEnteredAndTheIdleTime) {
  Profiler profiler;
  RecordTestProfile(profiler);

  const std::vector<ProfileLine> lines = ProfileLines(profiler, kDecode);

  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[0].name, "plan");
  EXPECT_EQ(lines[0].calls, 3);
  EXPECT_DOUBLE_EQ(lines[0].total_ms, 0.06);
  EXPECT_DOUBLE_EQ(lines[0].share, 0.05);
  EXPECT_DOUBLE_EQ(lines[0].thread_us_per_step[0], 20.0);
  EXPECT_DOUBLE_EQ(lines[0].thread_us_per_step[1], 0.0);
  EXPECT_EQ(lines[1].name, "attention");
  EXPECT_EQ(lines[1].calls, 12);
  EXPECT_DOUBLE_EQ(lines[1].thread_us_per_step[1], 80.0);
  EXPECT_EQ(lines[5].name, "idle");
  EXPECT_DOUBLE_EQ(lines[5].thread_us_per_step[0], 0.0);
  EXPECT_DOUBLE_EQ(lines[5].thread_us_per_step[1], 40.0);
}

TEST(ProfileReportTest, TheTypicalStepIsTheMedianOfThoseThatAreKeptWhole) {
  Profiler all;
  RecordTestProfile(all);
  EXPECT_EQ(TypicalStep(all, kDecode)->index, 3u);
  EXPECT_EQ(TypicalStep(all, kPrefill)->index, 0u);

  // A decode step has eight events on thread 0: the last one alone is whole.
  Profiler few({.max_events = 24, .max_steps = 16});
  RecordTestProfile(few);
  EXPECT_EQ(TypicalStep(few, kDecode)->index, 3u);
  EXPECT_FALSE(TypicalStep(few, kPrefill).has_value());
}

TEST(ProfileReportTest, TheTableHasBothKindsAndSaysWhatWasDropped) {
  Profiler profiler({.max_events = 24, .max_steps = 16});
  RecordTestProfile(profiler);

  const std::string table = ProfileTable(profiler);

  EXPECT_THAT(table, HasSubstr("prefill: 1 steps, 64 tokens, 1.000 ms a step\n"));
  EXPECT_THAT(table, HasSubstr("decode: 3 steps, 3 tokens, 0.200 ms a step\n"));
  EXPECT_THAT(table, HasSubstr("thread 1"));
  EXPECT_THAT(table, HasSubstr("events: 24 kept, 32 older ones dropped"));
}

TEST(ProfileReportTest, ManyThreadsAreSummedUpByTheLeastAndTheMost) {
  Profiler profiler;
  profiler.Attach(6);
  RecordTestProfile(profiler);

  const std::string table = ProfileTable(profiler);

  EXPECT_THAT(table, HasSubstr("least       most"));
  EXPECT_THAT(table, Not(HasSubstr("thread 1")));
}

TEST(ProfileReportTest, WithoutAStepTheTableSaysSo) {
  EXPECT_EQ(ProfileTable(Profiler()), "profile: no step was computed\n");
}

TEST(ProfileTraceTest, EveryEventIsOnItsThreadsTrackInsideItsStep) {
  Profiler profiler;
  RecordTestProfile(profiler);

  const boost::json::value trace = boost::json::parse(ProfileTraceJson(profiler));

  std::map<int64_t, std::string> tracks;
  std::map<int64_t, boost::json::object> steps;
  size_t num_zones = 0;
  for (const boost::json::value& item : trace.at("traceEvents").as_array()) {
    const boost::json::object& event = item.as_object();
    const boost::json::object& args = event.at("args").as_object();
    if (event.at("name") == "thread_name") {
      tracks[event.at("tid").as_int64()] = args.at("name").as_string().c_str();
    }
    if (event.at("ph") != "X") continue;
    if (event.at("tid") == 0) {
      steps[args.at("step").as_int64()] = event;
      continue;
    }
    ++num_zones;
    const boost::json::object& step = steps.at(args.at("step").as_int64());
    const double begin = event.at("ts").to_number<double>();
    const double end = begin + event.at("dur").to_number<double>();
    const double step_begin = step.at("ts").to_number<double>();
    EXPECT_GE(begin, step_begin);
    EXPECT_LE(end, step_begin + step.at("dur").to_number<double>() + 1e-3);
  }
  EXPECT_EQ(num_zones, 4u * (8 + 6));
  EXPECT_EQ(steps.size(), 4u);
  EXPECT_EQ(steps.at(1).at("ts").to_number<double>(), 2000.0);
  EXPECT_EQ(steps.at(1).at("dur").to_number<double>(), 100.0);
  EXPECT_EQ(tracks,
            (std::map<int64_t, std::string>{{0, "steps"}, {1, "thread 0"}, {2, "thread 1"}}));
  EXPECT_EQ(trace.at("otherData").at("num_dropped_events"), 0);
}

TEST(ProfileTraceTest, AProfileWithoutAStepIsStillATrace) {
  Profiler profiler;
  profiler.Attach(1);

  const boost::json::value trace = boost::json::parse(ProfileTraceJson(profiler));

  EXPECT_EQ(trace.at("traceEvents").as_array().size(), 5u);  // names alone
}

TEST(ProfilePictureTest, BarsAndTimelinesShowBothKinds) {
  Profiler profiler;
  RecordTestProfile(profiler);

  const std::string svg = ProfilePicture(profiler, "a <model> & more");

  EXPECT_THAT(svg, HasSubstr(">a &lt;model&gt; &amp; more</text>"));
  EXPECT_THAT(svg, HasSubstr(">prefill: 1 steps, 64 tokens, 1 ms a step</text>"));
  EXPECT_THAT(svg, HasSubstr(">decode: 3 steps, 3 tokens, 200 us a step</text>"));
  EXPECT_THAT(svg, HasSubstr(">A decode step of 1 token (the median): 200 us</text>"));
  EXPECT_THAT(svg, HasSubstr("<title>layer 1, attention: 20 us</title>"));
  EXPECT_THAT(svg, HasSubstr(">30.00 %</text>"));  // attention of both threads
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme:dark"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(ProfilePictureTest, AProfileWithoutAStepIsStillAPicture) {
  Profiler profiler;
  profiler.Attach(1);

  const std::string svg = ProfilePicture(profiler, "");

  EXPECT_THAT(svg, HasSubstr("</svg>"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace octavo::bench
