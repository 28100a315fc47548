// Replays of request traces against the real cache manager, by hand and against a bound that knows
// no manager.

#include "bench/replay.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace octavo::bench {
namespace {

using kvcache::EvictionPolicyKind;

constexpr EvictionPolicyKind kBoth[] = {EvictionPolicyKind::kLru, EvictionPolicyKind::kCostAware};

Trace TraceOf(const std::string& text) {
  Result<Trace> trace = ParseTrace("test", text);
  EXPECT_TRUE(trace.ok()) << trace.status().message();
  return trace.ok() ? *std::move(trace) : Trace();
}

Trace Excerpt() {
  std::ifstream file(OCTAVO_SOURCE_DIR "/tests/golden/traces/mooncake-conversation-50.jsonl");
  return TraceOf({std::istreambuf_iterator<char>(file), {}});
}

ReplayOptions BlocksOf(int32_t block_size) {
  ReplayOptions options;
  options.block_size_tokens = block_size;
  return options;
}

TEST(BoundOfTest, APromptSeenBeforeIsAHitButForItsLastToken) {
  const ReplayBound bound = BoundOf(TraceOf(R"(
{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}
{"timestamp": 1, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}
{"timestamp": 2, "input_length": 700, "output_length": 0, "hash_ids": [1, 2]}
{"timestamp": 3, "input_length": 600, "output_length": 0, "hash_ids": [2, 1]}
)"));

  EXPECT_EQ(bound.hits.num_prompt_tokens, 2500);
  EXPECT_EQ(bound.hits.num_hit_tokens, 599 + 600);
  EXPECT_EQ(bound.pool_tokens, 600 + 5 + 5 + 100 + 600);
}

TEST(BoundOfTest, TheExcerptHasTheFiguresThatWereCountedByOtherMeans) {
  const ReplayBound bound = BoundOf(Excerpt());

  EXPECT_EQ(bound.hits.num_hit_tokens, 147613);
  EXPECT_EQ(bound.pool_tokens, 78826);
}

TEST(ReplayHitsTest, ATokenCostsMoreTheLaterItStands) {
  ReplayHits hits;
  hits.Add(/*prompt_tokens=*/4097, /*hit_tokens=*/1);

  // 4097 tokens at 1 + p / 4096 each: 4097 + (0 + 1 + ... + 4096) / 4096.
  EXPECT_DOUBLE_EQ(hits.prompt_cost, 4097.0 + 4097.0 / 2.0);
  EXPECT_DOUBLE_EQ(hits.saved_cost, 1.0);
  EXPECT_DOUBLE_EQ(hits.hit_rate(), 1.0 / 4097.0);
  EXPECT_DOUBLE_EQ(hits.saved_cost_share(), 1.0 / 6145.5);
}

TEST(ReplayTest, APoolThatHoldsEverythingReachesTheBoundWhateverPolicyAndBlockSize) {
  const Trace trace = Excerpt();
  const ReplayBound bound = BoundOf(trace);

  for (const EvictionPolicyKind policy : kBoth) {
    for (const int32_t block_size : {8, 64, 256}) {
      const ReplayRun run = Replay(trace, policy, 200000, BlocksOf(block_size));
      EXPECT_EQ(run.hits.num_hit_tokens, bound.hits.num_hit_tokens) << block_size;
      EXPECT_EQ(run.hits.num_prompt_tokens, bound.hits.num_prompt_tokens);
      EXPECT_DOUBLE_EQ(run.hits.saved_cost, bound.hits.saved_cost);
      EXPECT_EQ(run.num_evictions, 0u);
      EXPECT_EQ(run.num_refused, 0);
      EXPECT_EQ(run.mean_wait_s, 0.0);
    }
  }
}

TEST(ReplayTest, ASmallPoolEvictsAndFindsLessThanTheBound) {
  const Trace trace = Excerpt();

  for (const EvictionPolicyKind policy : kBoth) {
    const ReplayRun run = Replay(trace, policy, 10000, BlocksOf(16));
    EXPECT_EQ(run.num_blocks, 625u);
    EXPECT_EQ(run.pool_tokens, 10000);
    EXPECT_GT(run.num_evictions, 0u);
    EXPECT_GT(run.hits.num_hit_tokens, 0);
    EXPECT_LT(run.hits.num_hit_tokens, 147613);
    EXPECT_LE(run.peak_blocks_in_use, run.num_blocks);
    EXPECT_EQ(run.num_refused, 0);
  }
}

// A pool of three blocks of 256. A takes two and B the third and A's last, as the tail of a prompt
// goes before its head; so A comes back to its first block only.
TEST(ReplayTest, WhatIsEvictedIsTheTailOfTheOldest) {
  const Trace trace = TraceOf(R"(
{"timestamp": 0, "input_length": 512, "output_length": 0, "hash_ids": [1]}
{"timestamp": 1000, "input_length": 512, "output_length": 0, "hash_ids": [2]}
{"timestamp": 2000, "input_length": 512, "output_length": 0, "hash_ids": [1]}
)");
  const ReplayRun run = Replay(trace, EvictionPolicyKind::kLru, 3 * 256, BlocksOf(256));

  EXPECT_EQ(run.hits.num_hit_tokens, 256);
  EXPECT_EQ(run.num_evictions, 2u);  // A's tail for B, B's tail for A
  EXPECT_EQ(run.peak_blocks_in_use, 2u);
  EXPECT_EQ(run.peak_running, 1);
}

// Both need two of three blocks of 256. The first runs 500 / 100 + 12 / 4 = 8 s, so the second
// waits from second 1 to second 8.
TEST(ReplayTest, ARequestWaitsUntilThePoolCanHoldPromptAndOutput) {
  const Trace trace = TraceOf(R"(
{"timestamp": 0, "input_length": 500, "output_length": 12, "hash_ids": [1]}
{"timestamp": 1000, "input_length": 500, "output_length": 12, "hash_ids": [2]}
)");
  ReplayOptions options = BlocksOf(256);
  options.prefill_tokens_per_s = 100;
  options.decode_tokens_per_s = 4;
  const ReplayRun crowded = Replay(trace, EvictionPolicyKind::kLru, 3 * 256, options);
  const ReplayRun roomy = Replay(trace, EvictionPolicyKind::kLru, 4 * 256, options);

  EXPECT_DOUBLE_EQ(crowded.mean_wait_s, 7.0 / 2.0);
  EXPECT_EQ(crowded.peak_running, 1);
  EXPECT_DOUBLE_EQ(roomy.mean_wait_s, 0.0);
  EXPECT_EQ(roomy.peak_running, 2);
  EXPECT_EQ(roomy.peak_blocks_in_use, 4u);
}

// The second request's blocks are those of the first, which still runs: three are enough for both.
TEST(ReplayTest, WhatARunningRequestHoldsIsSharedAtOnce) {
  const Trace trace = TraceOf(R"(
{"timestamp": 0, "input_length": 600, "output_length": 100, "hash_ids": [1, 2]}
{"timestamp": 1, "input_length": 520, "output_length": 0, "hash_ids": [1, 3]}
)");
  const ReplayRun run = Replay(trace, EvictionPolicyKind::kCostAware, 4 * 256, BlocksOf(256));

  EXPECT_EQ(run.hits.num_hit_tokens, 512);
  EXPECT_EQ(run.peak_blocks_in_use, 4u);  // two shared, one of each
  EXPECT_EQ(run.mean_wait_s, 0.0);
}

TEST(ReplayTest, WhatThePoolCanNeverHoldIsRefusedAndCountsAsNotCached) {
  const Trace trace = TraceOf(R"(
{"timestamp": 0, "input_length": 500, "output_length": 0, "hash_ids": [1]}
{"timestamp": 1, "input_length": 512, "output_length": 1, "hash_ids": [1]}
{"timestamp": 2, "input_length": 500, "output_length": 0, "hash_ids": [1]}
)");
  const ReplayRun run = Replay(trace, EvictionPolicyKind::kLru, 2 * 256, BlocksOf(256));

  EXPECT_EQ(run.num_refused, 1);
  EXPECT_EQ(run.hits.num_prompt_tokens, 1512);
  EXPECT_EQ(run.hits.num_hit_tokens, 499);
}

TEST(ReplayTest, ProgressGrowsFromZeroTowardsOne) {
  std::vector<double> shares;
  Replay(Excerpt(), EvictionPolicyKind::kLru, 10000, BlocksOf(64),
         [&shares](double share) { shares.push_back(share); });

  ASSERT_EQ(shares.size(), 50u);
  EXPECT_EQ(shares.front(), 0.0);
  EXPECT_EQ(shares.back(), 0.98);
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
}

}  // namespace
}  // namespace octavo::bench
