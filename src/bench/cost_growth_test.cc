// The growth bench: what each curve measures, and what it refuses. The queue's curve needs a model
// whose steps take time: tests/e2e/bench_test.py.

#include "bench/cost_growth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "engine/test_engine.h"

namespace octavo::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::Pair;

std::unique_ptr<Engine> TinyEngine() {
  EngineOptions options = engine::TinyOptions();
  options.model.max_model_len = 256;
  return engine::MakeEngine(options);
}

TEST(CostGrowthTest, EachSizeHasItsRate) {
  const std::unique_ptr<Engine> engine = TinyEngine();
  ASSERT_NE(engine, nullptr);

  const Result<GrowthCurve> contexts = DecodeRateByContext(*engine, {8, 64});
  ASSERT_TRUE(contexts.ok()) << contexts.status().message();
  EXPECT_THAT(*contexts, ElementsAre(Pair(8, Gt(0)), Pair(64, Gt(0))));

  const Result<GrowthCurve> batches = OutputRateByBatch(*engine, {1, 3});
  ASSERT_TRUE(batches.ok()) << batches.status().message();
  EXPECT_THAT(*batches, ElementsAre(Pair(1, Gt(0)), Pair(3, Gt(0))));
}

TEST(CostGrowthTest, PromptsLongerThanTheContextAreRefused) {
  const std::unique_ptr<Engine> engine = TinyEngine();
  ASSERT_NE(engine, nullptr);
  EXPECT_FALSE(DecodeRateByContext(*engine, {250}).ok());
}

TEST(CostGrowthTest, APoolIsAtLeastOneSequence) {
  EXPECT_THAT(BlockRateByPool({1, 200}, 1e-3), ElementsAre(Pair(64, Gt(0)), Pair(200, Gt(0))));
}

}  // namespace
}  // namespace octavo::bench
