// What a sample says, and the aim for the memory.

#include "bench/startup.h"

#include <gtest/gtest.h>

#include <vector>

#include "engine/test_engine.h"
#include "octavo/profiler.h"

namespace octavo::bench {
namespace {

TEST(StartupTest, ASampleSaysWhereTheTimeWentAndWhatWasHeld) {
  const EngineOptions options = engine::TinyOptions();
  const int64_t begun_ns = Profiler::NowNs() - 1'000'000;

  const Result<StartupSample> sample = MeasureStartup(options, begun_ns);

  ASSERT_TRUE(sample.ok()) << sample.status().message();
  EXPECT_GE(sample->program_s, 1e-3);
  const LoadTiming& load = sample->load;
  const double phases_s = load.open_s + load.text_s + load.weights_s + load.rest_s;
  EXPECT_GT(load.weights_s, 0.0);
  EXPECT_LE(sample->program_s + phases_s, sample->ready_s);
  EXPECT_EQ(sample->num_prompt_tokens, 511);   // of a context of 512
  EXPECT_EQ(sample->kv_bytes, 512 * 2 * 512);  // tokens, layers, bytes
  EXPECT_GT(sample->peak_ready_bytes, sample->file_bytes);
  EXPECT_GE(sample->peak_prompt_bytes, sample->peak_ready_bytes);
}

TEST(StartupTest, AProcessThatBeginsInTheFutureIsRefused) {
  const Result<StartupSample> sample =
      MeasureStartup(engine::TinyOptions(), Profiler::NowNs() + 1'000'000'000'000);

  EXPECT_EQ(sample.status().code(), StatusCode::kInvalidArgument);
}

TEST(StartupTest, TheAimIsTheSumOfItsTerms) {
  StartupSample sample;
  sample.file_bytes = 100'000'000;
  sample.activation_bytes = 1'000'000;
  sample.kv_bytes = 2'000'000;
  sample.peak_ready_bytes = StartupAim::ReadyBytes(sample);
  sample.peak_prompt_bytes = StartupAim::PromptBytes(sample);

  EXPECT_EQ(StartupAim::ReadyBytes(sample), 115'000'000 + (48 << 20) + 1'000'000);
  EXPECT_EQ(StartupAim::PromptBytes(sample), StartupAim::ReadyBytes(sample) + 2'000'000);
  EXPECT_TRUE(StartupAim::Holds(sample));
  ++sample.peak_prompt_bytes;
  EXPECT_FALSE(StartupAim::Holds(sample));
  --sample.peak_prompt_bytes;
  ++sample.peak_ready_bytes;
  EXPECT_FALSE(StartupAim::Holds(sample));
}

TEST(StartupTest, TheMedianIsTakenOfEachTimeAndTheMostOfEachPeak) {
  std::vector<StartupSample> samples(3);
  samples[0].ready_s = 3.0;
  samples[1].ready_s = 1.0;
  samples[2].ready_s = 2.0;
  samples[0].load.weights_s = 0.1;
  samples[1].load.weights_s = 0.3;
  samples[2].load.weights_s = 0.2;
  samples[1].peak_ready_bytes = 7;

  const StartupSample median = MedianOf(samples);

  EXPECT_DOUBLE_EQ(median.ready_s, 2.0);
  EXPECT_DOUBLE_EQ(median.load.weights_s, 0.2);
  EXPECT_EQ(median.peak_ready_bytes, 7);
}

}  // namespace
}  // namespace octavo::bench
