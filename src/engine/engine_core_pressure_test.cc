// What requests get when blocks, places or time run short: they wait, give way and come back, or
// are aborted, and nothing is lost, doubled or left behind. The model is simulated; blocks hold 16
// tokens.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "engine/engine_core.h"
#include "engine/simulation/simulated_engine.h"
#include "engine/simulation/test_requests.h"
#include "formats/gguf_file.h"
#include "text/tokenizer.h"

namespace octavo::engine {
namespace {

// ---- Preemption

enum class ComeBack { kByRecompute, kBySwap };

CoreOptions TightCore(uint32_t num_blocks, ComeBack mode) {
  CoreOptions core = SimulatedCore(num_blocks);
  if (mode == ComeBack::kBySwap) core.num_swap_blocks = 2 * num_blocks;
  return core;
}

// Case D3: eight streams that need three times the pool.
class PreemptionTest : public ::testing::TestWithParam<ComeBack> {};

TEST_P(PreemptionTest, StreamsThatPushEachOtherOutGetEveryTokenOnce) {
  for (const bool greedy : {true, false}) {
    SimulatedEngine engine(TightCore(40, GetParam()));
    std::vector<Request> requests;
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (uint32_t i = 0; i < 8; ++i) {
      requests.push_back(greedy ? Greedy(PromptOf(32, i), 200) : Drawn(PromptOf(32, i), 200));
      sinks.push_back(engine.Submit(requests.back(), 100 + i));
    }
    ASSERT_TRUE(engine.RunAll()) << engine.violation();

    int32_t num_preemptions = 0;
    for (uint32_t i = 0; i < 8; ++i) {
      const RequestOutput& output = sinks[i]->output();
      EXPECT_EQ(DifferenceOf(output, engine.ComputeAlone(requests[i], 100 + i)), "");
      EXPECT_EQ(sinks[i]->num_deltas(), 200u);
      EXPECT_EQ(output.timing.token_s.size(), 200u);
      num_preemptions += output.num_preemptions;
    }
    const EngineStats stats = engine.core().stats();
    EXPECT_EQ(stats.num_generation_tokens, 8u * 200u);
    EXPECT_GE(num_preemptions, 1);
    if (GetParam() == ComeBack::kBySwap) {
      EXPECT_GE(stats.num_preemptions_swap, 1u);
      EXPECT_GT(engine.executor().num_swapped_out(), 0u);
      EXPECT_EQ(stats.num_computed_tokens, 8u * (32u + 199u));  // nothing is computed twice
    } else {
      EXPECT_EQ(stats.num_preemptions_recompute, static_cast<uint64_t>(num_preemptions));
    }
    EXPECT_EQ(stats.num_free_swap_blocks, stats.num_swap_blocks);
    EXPECT_EQ(stats.cache.num_blocks_in_use, 0u);
  }
}

TEST_P(PreemptionTest, BeamsAndForksComeBackAsTheyWere) {
  CoreOptions core = TightCore(16, GetParam());
  core.limits.max_num_seqs = 8;
  SimulatedEngine engine(core);
  Request several = Drawn(PromptOf(40, 1), 60);
  several.params.n = 3;
  Request reporting = Greedy(PromptOf(90, 2), 40);
  reporting.params.prompt_logprobs = 2;
  const std::vector<Request> requests = {several, Beams(PromptOf(40, 3), 3, 30), reporting,
                                         Greedy(PromptOf(60, 4), 60)};
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (const Request& request : requests) {
    ASSERT_TRUE(engine.Check(request).ok()) << engine.Check(request).message();
    sinks.push_back(engine.Submit(request, 5));
  }
  ASSERT_TRUE(engine.RunAll()) << engine.violation();

  int32_t num_preemptions = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(DifferenceOf(sinks[i]->output(), engine.ComputeAlone(requests[i], 5)), "");
    num_preemptions += sinks[i]->output().num_preemptions;
  }
  EXPECT_GE(num_preemptions, 1);
}

// A prompt whose log-probabilities are half reported when it must give way.
TEST_P(PreemptionTest, ThePromptsLogprobsAreReportedOnceThoughItIsComputedTwice) {
  CoreOptions core = TightCore(12, GetParam());
  core.limits.max_num_batched_tokens = 20;
  core.cache.enable_prefix_caching = false;
  SimulatedEngine engine(core);
  const Request first = Greedy(PromptOf(60, 1), 90);
  Request reporting = Greedy(PromptOf(120, 2), 20);
  reporting.params.prompt_logprobs = 2;
  engine.Submit(first);
  for (int step = 0; step < 48; ++step) ASSERT_TRUE(engine.Step()) << engine.violation();
  const auto sink = engine.Submit(reporting);
  ASSERT_TRUE(engine.RunAll()) << engine.violation();

  EXPECT_GE(sink->output().num_preemptions, 1);
  EXPECT_EQ(DifferenceOf(sink->output(), engine.ComputeAlone(reporting)), "");
}

TEST_P(PreemptionTest, TheStreamedTextIsTheFinalText) {
  auto file = formats::GgufFile::Open(std::string(OCTAVO_SOURCE_DIR) +
                                      "/tests/golden/tiny/llama-mha-64.gguf");
  ASSERT_TRUE(file.ok()) << file.status().message();
  auto tokenizer = text::LoadTokenizer(*file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  SimulationOptions model;
  model.vocab_size = (*tokenizer)->vocab_size();
  SimulatedEngine engine(TightCore(12, GetParam()), model, tokenizer->get());
  std::vector<Request> requests;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (uint32_t i = 0; i < 4; ++i) {
    Request request = Drawn(PromptOf(20, i), 80);
    request.params.detokenize = true;
    request.params.stop = {"ab", "e t"};
    requests.push_back(request);
    sinks.push_back(engine.Submit(request, i));
  }
  ASSERT_TRUE(engine.RunAll()) << engine.violation();  // the sinks compare
  for (uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(DifferenceOf(sinks[i]->output(), engine.ComputeAlone(requests[i], i)), "");
    EXPECT_FALSE(sinks[i]->output().outputs[0].text.empty());
  }
  EXPECT_GE(
      engine.core().stats().num_preemptions_recompute + engine.core().stats().num_preemptions_swap,
      1u);
}

// Case D1 (a).
TEST_P(PreemptionTest, SixRequestsThatEachFillThePoolAllFinish) {
  SimulatedEngine engine(TightCore(8, GetParam()));
  std::vector<Request> requests;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (uint32_t i = 0; i < 6; ++i) {
    requests.push_back(Greedy(PromptOf(60, i), 60));
    sinks.push_back(engine.Submit(requests.back()));
  }
  ASSERT_TRUE(engine.RunAll(6 * 120)) << engine.violation();
  for (uint32_t i = 0; i < 6; ++i) {
    EXPECT_EQ(DifferenceOf(sinks[i]->output(), engine.ComputeAlone(requests[i])), "");
  }
  const EngineStats stats = engine.core().stats();
  const uint64_t num_preemptions = stats.num_preemptions_recompute + stats.num_preemptions_swap;
  EXPECT_GE(num_preemptions, 1u);
  EXPECT_LE(num_preemptions, 6u * 60u / 16u + 6u);  // at most one for each block of output
}

// What was given up is for those that go on, not for whoever gave it up.
TEST_P(PreemptionTest, NobodyIsAdmittedInAStepThatPushedSomebodyOut) {
  CoreOptions core = TightCore(12, GetParam());
  core.cache.enable_prefix_caching = false;
  core.limits.max_num_batched_tokens = 24;  // a beginning would fit into the blocks
  SimulatedEngine engine(core);
  for (uint32_t i = 0; i < 4; ++i) engine.Submit(Greedy(PromptOf(30, i), 100));
  int num_preempting_steps = 0;
  while (engine.core().has_work()) {
    const EngineStats before = engine.core().stats();
    ASSERT_TRUE(engine.Step()) << engine.violation();
    const EngineStats after = engine.core().stats();
    if (after.num_preemptions_recompute + after.num_preemptions_swap ==
        before.num_preemptions_recompute + before.num_preemptions_swap) {
      continue;
    }
    ++num_preempting_steps;
    EXPECT_FALSE(engine.core().last_plan().scheduled.empty());
    EXPECT_TRUE(engine.core().last_plan().admitted.empty());
  }
  EXPECT_GE(num_preempting_steps, 2);
}

INSTANTIATE_TEST_SUITE_P(Mode, PreemptionTest,
                         ::testing::Values(ComeBack::kByRecompute, ComeBack::kBySwap),
                         [](const auto& mode) {
                           return mode.param == ComeBack::kBySwap ? "Swap" : "Recompute";
                         });

// Case D1 (b).
TEST(EngineCorePressureTest, WhatCanNeverFitIsRefusedAndTheFiveBehindItRun) {
  SimulatedEngine engine(SimulatedCore(8));
  EXPECT_FALSE(engine.Check(Greedy(PromptOf(120), 20)).ok());  // 9 blocks
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (uint32_t i = 0; i < 5; ++i) sinks.push_back(engine.Submit(Greedy(PromptOf(8, i), 8)));
  ASSERT_TRUE(engine.RunAll(20)) << engine.violation();
  for (const auto& sink : sinks) EXPECT_TRUE(sink->has_ended());
  EXPECT_EQ(engine.core().stats().num_preemptions_recompute, 0u);
}

// ---- Aborts and leaks

TEST(EngineCorePressureTest, AnAbortAtAnyTimeGivesEveryBlockBack) {
  for (const uint32_t num_swap_blocks : {0u, 24u}) {
    for (int64_t num_steps = 0; num_steps < 60; ++num_steps) {
      CoreOptions core = SimulatedCore(14);
      core.limits.max_num_batched_tokens = 24;
      core.num_swap_blocks = num_swap_blocks;
      SimulatedEngine engine(core);
      Request several = Drawn(PromptOf(40, 1), 60);
      several.params.n = 3;
      std::vector<std::shared_ptr<RecordingSink>> sinks;
      for (const Request& request : {several, Beams(PromptOf(40, 3), 3, 16),
                                     Greedy(PromptOf(60, 4), 60), Greedy(PromptOf(60, 4), 60)}) {
        sinks.push_back(engine.Submit(request));
      }
      for (int64_t i = 0; i < num_steps && engine.core().has_work(); ++i) {
        ASSERT_TRUE(engine.Step()) << engine.violation();
      }
      for (RequestId id = 1; id <= 4; ++id) engine.Abort(id);
      engine.Audit();
      ASSERT_EQ(engine.violation(), "");

      for (const auto& sink : sinks) EXPECT_TRUE(sink->has_ended());
      EXPECT_FALSE(engine.core().has_work());
      EXPECT_EQ(engine.cache_stats().num_blocks_in_use, 0u);
      EXPECT_EQ(engine.core().stats().num_free_swap_blocks, num_swap_blocks);
      EXPECT_FALSE(engine.Abort(1));  // it has ended
      engine.core().cache().Reset();
      EXPECT_EQ(engine.cache_stats().num_free_blocks, 14u);
    }
  }
}

// Case C1.
TEST(EngineCorePressureTest, TwoThousandRequestsOfAllLengthsLeaveNothingBehind) {
  for (const bool caches : {false, true}) {
    CoreOptions core = SimulatedCore(40);
    core.cache.enable_prefix_caching = caches;
    SimulatedEngine engine(core);
    std::mt19937 random(7);
    for (int i = 0; i < 2000; ++i) {
      const auto num_prompt = static_cast<int64_t>(1 + random() % 48);
      const auto max_tokens = static_cast<int32_t>(1 + random() % 20);
      engine.Submit(Greedy(PromptOf(num_prompt, random() % 5), max_tokens));
      if (i % 4 == 3) engine.core().Step();
    }
    while (engine.core().has_work()) engine.core().Step();
    engine.Audit();
    ASSERT_EQ(engine.violation(), "");

    kvcache::KvCacheStats stats = engine.cache_stats();
    EXPECT_EQ(stats.num_blocks_in_use, 0u);
    EXPECT_EQ(stats.num_free_blocks + stats.num_cached_blocks, 40u);
    if (!caches) {
      EXPECT_EQ(stats.num_free_blocks, 40u);
    }
    engine.core().cache().Reset();
    EXPECT_EQ(engine.cache_stats().num_free_blocks, 40u);
  }
}

// Case C5: a block that is evicted and written anew is not found under its old name, and a block
// that was left half full is not taken for a full one.
TEST(EngineCorePressureTest, AnEvictedBlockIsForgottenUnderItsOldTokens) {
  SimulatedEngine engine(SimulatedCore(4));
  const Request first = Greedy(PromptOf(40, 1), 4);
  const Request second = Greedy(PromptOf(50, 2), 4);
  engine.Run(first);
  engine.Run(second);
  const RequestOutput again = engine.Run(first);
  EXPECT_EQ(again.num_cached_tokens, 0);
  EXPECT_EQ(DifferenceOf(again, engine.ComputeAlone(first)), "");

  Request longer = first;  // goes on where the last block of `first` was half full
  longer.prompt_token_ids.insert(longer.prompt_token_ids.end(), {9, 9, 9, 9, 9, 9});
  const RequestOutput output = engine.Run(longer);
  EXPECT_EQ(output.num_cached_tokens, 40);
  EXPECT_EQ(DifferenceOf(output, engine.ComputeAlone(longer)), "");
  EXPECT_EQ(engine.violation(), "");
}

// ---- Order

std::vector<int> OrderOfEnds(SimulatedEngine& engine, const std::vector<int32_t>& priorities) {
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (size_t i = 0; i < priorities.size(); ++i) {
    Request request = Greedy(PromptOf(10, static_cast<uint32_t>(i)), 5);
    request.priority = priorities[i];
    sinks.push_back(engine.Submit(request));
  }
  std::vector<int> order;
  std::vector<bool> has_ended(sinks.size());
  while (engine.core().has_work() && engine.Step()) {
    for (size_t i = 0; i < sinks.size(); ++i) {
      if (!sinks[i]->has_ended() || has_ended[i]) continue;
      has_ended[i] = true;
      order.push_back(static_cast<int>(i));
    }
  }
  return order;
}

TEST(EngineCorePressureTest, ThePriorityDecidesWhoIsNextOnlyWhereItCounts) {
  CoreOptions core = SimulatedCore(16);
  core.limits.max_num_seqs = 1;
  SimulatedEngine fcfs(core);
  EXPECT_EQ(OrderOfEnds(fcfs, {1, 0, -1, 0}), (std::vector<int>{0, 1, 2, 3}));
  core.by_priority = true;
  SimulatedEngine by_priority(core);
  EXPECT_EQ(OrderOfEnds(by_priority, {1, 0, -1, 0}), (std::vector<int>{2, 1, 3, 0}));
}

TEST(EngineCorePressureTest, AStaticBatchIsFilledOnceAndRunsToItsEnd) {
  CoreOptions core = SimulatedCore(64);
  core.limits.max_num_seqs = 2;
  core.limits.static_batching = true;
  SimulatedEngine engine(core);
  const auto brief = engine.Submit(Greedy(PromptOf(10, 1), 2));
  const auto lengthy = engine.Submit(Greedy(PromptOf(10, 2), 10));
  const auto next = engine.Submit(Greedy(PromptOf(10, 3), 2));
  while (!lengthy->has_ended()) {
    ASSERT_TRUE(engine.Step()) << engine.violation();
    EXPECT_EQ(engine.core().stats().num_waiting, 1u);
  }
  EXPECT_TRUE(brief->has_ended());
  EXPECT_FALSE(next->has_ended());
  ASSERT_TRUE(engine.RunAll()) << engine.violation();
  EXPECT_GE(next->output().timing.queued_s, lengthy->output().timing.ttft_s);
}

// ---- Pins

TEST(EngineCorePressureTest, APinnedPromptOutlivesPressureUntilItsTimeEnds) {
  SimulatedEngine engine(SimulatedCore(8));
  Request pinned = Greedy(PromptOf(33, 1), 2);
  pinned.pin_ttl_ms = 60'000;
  engine.Run(pinned);
  const auto num_cached = [&] {
    const EngineCore& core = engine.core();
    return core.cache().Match(core.RootOf(""), pinned.prompt_token_ids, 33).num_tokens;
  };
  const auto press = [&engine](uint32_t variant) {
    for (uint32_t i = 0; i < 4; ++i) engine.Run(Greedy(PromptOf(60, variant + i), 4));
  };

  press(2);
  EXPECT_EQ(num_cached(), 33);
  engine.executor().Wait(61.0);
  press(6);
  EXPECT_EQ(num_cached(), 0);
  EXPECT_EQ(engine.violation(), "");
}

TEST(EngineCorePressureTest, PinsYieldToARequestThatNeedsTheWholePool) {
  CoreOptions core = SimulatedCore(8);
  core.cache.max_pinned_share = 1.0;
  SimulatedEngine engine(core);
  Request pinned = Greedy(PromptOf(60, 1), 2);
  pinned.pin_ttl_ms = 60'000;
  engine.Run(pinned);
  EXPECT_GT(engine.cache_stats().num_pinned_idle_blocks, 0u);

  const Request whole = Greedy(PromptOf(100, 2), 28);
  const RequestOutput output = engine.Run(whole);

  EXPECT_EQ(engine.violation(), "");
  EXPECT_EQ(DifferenceOf(output, engine.ComputeAlone(whole)), "");
  EXPECT_EQ(engine.cache_stats().num_pins, 0u);
}

// ---- Statistics

// Case X1: a request that is turned away many times asks the cache once.
TEST(EngineCorePressureTest, ARequestThatWaitsForBlocksCountsOneQuery) {
  SimulatedEngine engine(SimulatedCore(8));
  const auto first = engine.Submit(Greedy(PromptOf(70, 1), 40));
  const auto second = engine.Submit(Greedy(PromptOf(70, 2), 10));
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(engine.Step()) << engine.violation();
  EXPECT_EQ(engine.core().stats().num_waiting, 1u);
  EXPECT_EQ(engine.cache_stats().num_query_tokens, 69u);
  ASSERT_TRUE(engine.RunAll()) << engine.violation();
  EXPECT_EQ(engine.cache_stats().num_query_tokens, 2u * 69u);
  EXPECT_EQ(engine.cache_stats().num_hit_tokens, 0u);
  EXPECT_EQ(first->output().num_preemptions + second->output().num_preemptions, 0);
}

TEST(EngineCorePressureTest, TotalsAreTheSumsOfTheOutputs) {
  SimulatedEngine engine(SimulatedCore(64));
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (uint32_t i = 0; i < 30; ++i) {
    sinks.push_back(
        engine.Submit(Greedy(PromptOf(5 + i % 7 * 9, i % 3), 1 + static_cast<int32_t>(i % 5))));
    if (i % 4 == 0) {
      ASSERT_TRUE(engine.Step()) << engine.violation();
    }
  }
  engine.Abort(engine.last_id());
  ASSERT_TRUE(engine.RunAll()) << engine.violation();

  uint64_t num_prompt = 0;
  uint64_t num_cached = 0;
  uint64_t num_generated = 0;
  for (const auto& sink : sinks) {
    const RequestOutput& output = sink->output();
    num_generated += output.outputs[0].token_ids.size();
    if (output.outputs[0].token_ids.empty()) continue;  // the aborted one was never admitted
    num_prompt += output.prompt_token_ids.size();
    num_cached += static_cast<uint64_t>(output.num_cached_tokens);
    EXPECT_GE(output.timing.queued_s, 0.0);
    EXPECT_GT(output.timing.prefill_s, 0.0);
    EXPECT_DOUBLE_EQ(output.timing.ttft_s, output.timing.token_s.front());
  }
  const EngineStats stats = engine.core().stats();
  EXPECT_EQ(stats.num_prompt_tokens, num_prompt);
  EXPECT_EQ(stats.num_cached_tokens, num_cached);
  EXPECT_GT(num_cached, 0u);
  EXPECT_EQ(stats.num_generation_tokens, num_generated);
  EXPECT_EQ(stats.num_computed_tokens, engine.executor().num_rows());
  EXPECT_EQ(stats.num_finished[static_cast<size_t>(FinishReason::kLength)], 29u);
  EXPECT_EQ(stats.num_finished[static_cast<size_t>(FinishReason::kAbort)], 1u);
  EXPECT_EQ(stats.num_running + stats.num_waiting, 0u);
}

}  // namespace
}  // namespace octavo::engine
