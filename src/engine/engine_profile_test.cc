// What a profiler sees of an engine's steps.

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "engine/test_engine.h"
#include "octavo/profiler.h"

namespace octavo::engine {
namespace {

// 40 prompt tokens in chunks of 16, then 9 more tokens, on `num_threads` threads.
std::vector<TokenId> GenerateProfiled(Profiler* profiler, int32_t num_threads) {
  EngineOptions options = TinyOptions();
  options.device.threads = num_threads;
  options.scheduler.max_num_batched_tokens = 16;
  options.profiler = profiler;
  const std::unique_ptr<Engine> engine = MakeEngine(options);
  SamplingParams params;
  params.temperature = 0.0f;
  params.ignore_eos = true;
  params.max_tokens = 10;
  std::vector<TokenId> prompt(40);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<TokenId>(3 + i);
  const Result<RequestOutput> output = engine->Generate(prompt, params);
  EXPECT_TRUE(output.ok()) << output.status().message();
  return output->outputs.front().token_ids;
}

TEST(EngineProfileTest, StepsAreCountedByTheirKind) {
  Profiler profiler;
  GenerateProfiled(&profiler, 1);

  EXPECT_EQ(profiler.steps(ProfileStepKind::kPrefill).num_steps, 3);
  EXPECT_EQ(profiler.steps(ProfileStepKind::kPrefill).num_rows, 40);
  EXPECT_EQ(profiler.steps(ProfileStepKind::kDecode).num_steps, 9);
  EXPECT_EQ(profiler.steps(ProfileStepKind::kDecode).num_rows, 9);
}

// The model has 2 layers.
TEST(EngineProfileTest, EveryZoneIsEnteredOnceAStepAndLayer) {
  Profiler profiler;
  GenerateProfiled(&profiler, 1);

  const auto calls = [&profiler](ProfileZone zone) {
    return profiler.zone(0, ProfileStepKind::kDecode, zone).calls;
  };
  for (const ProfileZone zone :
       {ProfileZone::kQueryKeyValue, ProfileZone::kRotateStore, ProfileZone::kAttentionOutput,
        ProfileZone::kGateUp, ProfileZone::kActivation, ProfileZone::kDown}) {
    EXPECT_EQ(calls(zone), 9 * 2) << ProfileZoneName(zone);
  }
  EXPECT_EQ(calls(ProfileZone::kAttention), 9 * 2 * 2);  // the chunks, and their folding
  EXPECT_EQ(calls(ProfileZone::kNormQuantise), 9 * 2 * 3);
  for (const ProfileZone zone :
       {ProfileZone::kPlan, ProfileZone::kEmbed, ProfileZone::kOutputNorm, ProfileZone::kCommit,
        ProfileZone::kSample, ProfileZone::kPublish}) {
    EXPECT_EQ(calls(zone), 9) << ProfileZoneName(zone);
  }
}

TEST(EngineProfileTest, ZonesOfEachThreadStayWithinTheStepsTime) {
  Profiler profiler;
  GenerateProfiled(&profiler, 2);

  ASSERT_EQ(profiler.num_threads(), 2);
  for (const ProfileStepKind kind : {ProfileStepKind::kPrefill, ProfileStepKind::kDecode}) {
    for (int thread = 0; thread < 2; ++thread) {
      int64_t sum_ns = 0;
      for (size_t zone = 0; zone < kNumProfileZones; ++zone) {
        sum_ns += profiler.zone(thread, kind, static_cast<ProfileZone>(zone)).total_ns;
      }
      EXPECT_GT(sum_ns, 0);
      EXPECT_LE(sum_ns, profiler.steps(kind).total_ns);
    }
  }
}

TEST(EngineProfileTest, EventsOfAThreadFollowOneAnother) {
  Profiler profiler;
  GenerateProfiled(&profiler, 2);

  for (int thread = 0; thread < 2; ++thread) {
    int64_t last_ns = 0;
    for (const ProfileEvent& event : profiler.Events(thread)) {
      EXPECT_GE(event.begin_ns, last_ns);
      EXPECT_GE(event.end_ns, event.begin_ns);
      last_ns = event.end_ns;
    }
    EXPECT_GT(last_ns, 0);
  }
}

TEST(EngineProfileTest, RecordingChangesNoToken) {
  Profiler profiler;

  EXPECT_EQ(GenerateProfiled(&profiler, 2), GenerateProfiled(nullptr, 2));
}

TEST(EngineProfileTest, EnginesOneAfterAnotherAddUp) {
  Profiler profiler;
  GenerateProfiled(&profiler, 1);
  GenerateProfiled(&profiler, 2);

  EXPECT_EQ(profiler.steps(ProfileStepKind::kDecode).num_steps, 2 * 9);
}

}  // namespace
}  // namespace octavo::engine
