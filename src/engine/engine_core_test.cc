// What requests get from an engine that serves many of them: the answers that they have alone, with
// the work of each prompt done once. On the simulated model (simulation/); blocks of 16 tokens.

#include "engine/engine_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "engine/simulation/simulated_engine.h"
#include "engine/simulation/test_requests.h"

namespace octavo::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

#define EXPECT_AS_ALONE(engine, sink, request, seed)                                         \
  do {                                                                                       \
    ASSERT_TRUE((sink)->has_ended());                                                        \
    EXPECT_EQ(DifferenceOf((sink)->output(), (engine).ComputeAlone((request), (seed))), ""); \
  } while (false)

TEST(EngineCoreTest, ARequestThatIsAloneGetsWhatTheModelGivesTokenByToken) {
  SimulatedEngine engine(SimulatedCore(64));
  for (const uint64_t seed : {1, 2, 3}) {
    Request request = Drawn(PromptOf(37), 50);
    request.params.n = 3;
    request.params.ignore_eos = false;
    request.params.repetition_penalty = 1.2f;
    EXPECT_EQ(DifferenceOf(engine.Run(request, seed), engine.ComputeAlone(request, seed)), "");
  }
  EXPECT_EQ(engine.violation(), "");
}

// ---- Prompts that are shared

TEST(EngineCoreTest, TwoEqualPromptsSubmittedAtOnceAreComputedOnce) {
  SimulatedEngine engine(SimulatedCore(64));
  const Request request = Greedy(PromptOf(40), 4);

  const auto first = engine.Submit(request);
  const auto second = engine.Submit(request);
  ASSERT_TRUE(engine.RunAll()) << engine.violation();

  EXPECT_EQ(first->output().num_cached_tokens, 0);
  EXPECT_EQ(second->output().num_cached_tokens, 39);
  EXPECT_EQ(engine.executor().num_rows(), 40u + 3u + 1u + 3u);
  EXPECT_AS_ALONE(engine, first, request, 1);
  EXPECT_AS_ALONE(engine, second, request, 1);
}

TEST(EngineCoreTest, WhoeverWaitsForAnothersPromptGoesOnByItselfWhenThatOneIsAborted) {
  CoreOptions core = SimulatedCore(64);
  core.limits.max_num_batched_tokens = 16;
  SimulatedEngine engine(core);
  const Request request = Greedy(PromptOf(40), 4);
  const auto first = engine.Submit(request);
  const RequestId first_id = engine.last_id();
  const auto second = engine.Submit(request);

  ASSERT_TRUE(engine.Step()) << engine.violation();
  EXPECT_EQ(engine.core().stats().num_waiting, 1u);
  EXPECT_TRUE(engine.Abort(first_id));
  ASSERT_TRUE(engine.RunAll()) << engine.violation();

  EXPECT_EQ(first->output().outputs[0].finish_reason, FinishReason::kAbort);
  EXPECT_EQ(second->output().num_cached_tokens, 16);  // what the first had computed
  EXPECT_AS_ALONE(engine, second, request, 1);
}

// Case A1.
TEST(EngineCoreTest, EveryRepetitionOfAPromptIsTheFirstAgainAndComputesOneTokenOfIt) {
  constexpr int32_t kMaxTokens = 48;
  for (const int64_t length : {15, 16, 17, 31, 32, 33, 64, 65}) {
    SimulatedEngine engine(SimulatedCore(64));
    const Request request = Greedy(PromptOf(length), kMaxTokens);
    for (int run = 1; run <= 5; ++run) {
      const uint64_t num_rows = engine.executor().num_rows();
      const RequestOutput output = engine.Run(request);

      ASSERT_EQ(engine.violation(), "");
      EXPECT_EQ(DifferenceOf(output, engine.ComputeAlone(request)), "");
      EXPECT_EQ(output.num_cached_tokens, run == 1 ? 0 : length - 1);
      const auto num_computed = static_cast<int64_t>(engine.executor().num_rows() - num_rows);
      EXPECT_EQ(num_computed, (run == 1 ? length : 1) + kMaxTokens - 1);
    }
  }
}

// Case A5.
TEST(EngineCoreTest, PenaltiesSeeTheWholePromptHoweverMuchOfItIsCached) {
  SimulatedEngine engine(SimulatedCore(64));
  Request request = Greedy(PromptOf(40), 30);
  request.params.repetition_penalty = 1.3f;
  Request half = request;
  half.prompt_token_ids.resize(20);
  half.cache_salt = "half";
  const RequestOutput alone = engine.ComputeAlone(request);
  Request unpenalised = request;
  unpenalised.params.repetition_penalty = 1.0f;
  ASSERT_NE(DifferenceOf(alone, engine.ComputeAlone(unpenalised)), "");  // else it proves nothing

  EXPECT_EQ(DifferenceOf(engine.Run(request), alone), "");  // cold
  const RequestOutput warm = engine.Run(request);
  EXPECT_EQ(warm.num_cached_tokens, 39);
  EXPECT_EQ(DifferenceOf(warm, alone), "");
  engine.Run(half);
  request.cache_salt = "half";
  const RequestOutput half_cached = engine.Run(request);
  EXPECT_GE(half_cached.num_cached_tokens, 20);
  EXPECT_LT(half_cached.num_cached_tokens, 39);
  EXPECT_EQ(DifferenceOf(half_cached, alone), "");
}

// Case B1: twins under polynomial hashes with the factor 31, and under sums.
TEST(EngineCoreTest, PromptsThatHashAlikeShareTheirCommonTokensAndNoMore) {
  struct Twin {
    size_t index;
    TokenId change;
    size_t other_index;
    TokenId other_change;
    int32_t num_common;
  };
  SimulationOptions model;
  model.vocab_size = 2100;
  std::vector<TokenId> prompt(17, 7);
  std::iota(prompt.begin(), prompt.end() - 1, 2000);
  for (const Twin& twin : {Twin{4, 31, 5, -1, 4}, Twin{4, 1, 5, -31, 4}, Twin{8, 1, 9, -1, 8}}) {
    SimulatedEngine engine(SimulatedCore(64), model);
    std::vector<TokenId> changed = prompt;
    changed[twin.index] += twin.change;
    changed[twin.other_index] += twin.other_change;
    engine.Run(Greedy(prompt, 1));

    const RequestOutput output = engine.Run(Greedy(changed, 20));

    EXPECT_EQ(output.num_cached_tokens, twin.num_common);
    EXPECT_EQ(DifferenceOf(output, engine.ComputeAlone(Greedy(changed, 20))), "");
    EXPECT_EQ(engine.violation(), "");
  }
}

TEST(EngineCoreTest, SaltsShareNothingAndOneSaltSharesAll) {
  SimulatedEngine engine(SimulatedCore(64));
  Request request = Greedy(PromptOf(50), 4);
  request.cache_salt = "one";
  engine.Run(request);

  EXPECT_EQ(engine.Run(request).num_cached_tokens, 49);
  request.cache_salt = "two";
  EXPECT_EQ(engine.Run(request).num_cached_tokens, 0);
  request.cache_salt.clear();
  EXPECT_EQ(engine.Run(request).num_cached_tokens, 0);
}

TEST(EngineCoreTest, PromptLogprobsComputeEveryPositionAndLeaveTheCacheToOthers) {
  SimulatedEngine engine(SimulatedCore(64));
  const Request plain = Greedy(PromptOf(50), 4);
  Request reporting = plain;
  reporting.params.prompt_logprobs = 3;
  engine.Run(plain);
  const uint64_t num_rows = engine.executor().num_rows();

  const RequestOutput reported = engine.Run(reporting);
  EXPECT_EQ(reported.num_cached_tokens, 0);
  EXPECT_EQ(engine.executor().num_rows() - num_rows, 50u + 3u);
  EXPECT_EQ(reported.prompt_logprobs.size(), 49u);
  EXPECT_EQ(DifferenceOf(reported, engine.ComputeAlone(reporting)), "");

  EXPECT_EQ(engine.Run(plain).num_cached_tokens, 49);
  EXPECT_EQ(engine.violation(), "");
}

// ---- Several completions

// Case G1.
TEST(EngineCoreTest, EachOfThreeCompletionsHasItsOwnTokensEndAndStream) {
  std::set<FinishReason> reasons;
  bool lengths_differ = false;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SimulatedEngine engine(SimulatedCore(64));
    Request request = Drawn(PromptOf(20), 40);
    request.params.n = 3;
    request.params.ignore_eos = false;
    const auto sink = engine.Submit(request, seed);

    ASSERT_TRUE(engine.Step()) << engine.violation();
    EXPECT_EQ(engine.executor().num_rows(), 20u);  // the prompt, once
    EXPECT_LE(engine.cache_stats().num_blocks_in_use, 2u);
    ASSERT_TRUE(engine.RunAll()) << engine.violation();

    EXPECT_AS_ALONE(engine, sink, request, seed);
    EXPECT_EQ(engine.core().stats().num_prompt_tokens, 20u);
    ASSERT_EQ(sink->output().outputs.size(), 3u);
    for (int32_t index = 0; index < 3; ++index) {
      const CompletionOutput& completion = sink->output().outputs[static_cast<size_t>(index)];
      EXPECT_EQ(completion.index, index);
      EXPECT_EQ(sink->streams().at(index).token_ids, completion.token_ids);
      EXPECT_EQ(completion.logprobs.size(), completion.token_ids.size());
      reasons.insert(completion.finish_reason);
      lengths_differ = lengths_differ ||
                       completion.token_ids.size() != sink->output().outputs[0].token_ids.size();
    }
  }
  EXPECT_THAT(reasons, ElementsAre(FinishReason::kStop, FinishReason::kLength));
  EXPECT_TRUE(lengths_differ);
}

TEST(EngineCoreTest, ABeamSearchFindsWhatANaiveOneFinds) {
  for (const int32_t width : {1, 2, 4, 6}) {
    for (const bool ignore_eos : {false, true}) {
      for (const float penalty : {0.0f, 1.0f, 2.0f}) {
        SimulatedEngine engine(SimulatedCore(200));
        Request request = Beams(PromptOf(37, static_cast<uint32_t>(width)), width, 20);
        request.beam_search->ignore_eos = ignore_eos;
        request.beam_search->length_penalty = penalty;
        const auto sink = engine.Submit(request);
        ASSERT_TRUE(engine.RunAll()) << engine.violation();

        EXPECT_AS_ALONE(engine, sink, request, 1);
        EXPECT_EQ(sink->output().outputs.size(), static_cast<size_t>(width));
        const auto num_rows = static_cast<int64_t>(engine.executor().num_rows());
        EXPECT_LE(num_rows, 37 + 19 * width);
        EXPECT_GE(num_rows, 37 + 19);
      }
    }
  }
}

// The best of all continuations that there are, where the beams are wide enough to hold them all.
TEST(EngineCoreTest, ABeamSearchThatHoldsEveryBeginningFindsTheLikeliestContinuation) {
  SimulationOptions model;
  model.vocab_size = 5;
  CoreOptions core = SimulatedCore(200);
  SimulatedEngine engine(core, model);
  Request request = Beams({2, 3, 4, 2}, 25, 3);
  request.beam_search->ignore_eos = true;
  const RequestOutput output = engine.Run(request);
  ASSERT_EQ(engine.violation(), "");

  double best = -1e9;
  std::vector<TokenId> likeliest;
  std::vector<float> logits(5);
  const auto extend = [&](const auto& self, std::vector<TokenId> tokens, double logprob) -> void {
    if (tokens.size() == 7) {
      if (logprob > best) likeliest = std::vector<TokenId>(tokens.begin() + 4, tokens.end());
      best = std::max(best, logprob);
      return;
    }
    FillLogits(ChainHash(tokens), logits);
    const float max = *std::ranges::max_element(logits);
    double sum = 0.0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit - max));
    const std::vector<float> here = logits;
    for (TokenId token = 0; token < 5; ++token) {
      std::vector<TokenId> longer = tokens;
      longer.push_back(token);
      const double share = static_cast<double>(here[static_cast<size_t>(token)] - max);
      self(self, longer, logprob + share - std::log(sum));
    }
  };
  extend(extend, request.prompt_token_ids, 0.0);

  EXPECT_EQ(output.outputs[0].token_ids, likeliest);
  EXPECT_NEAR(output.outputs[0].cumulative_logprob, best, 1e-5);
}

TEST(EngineCoreTest, BeamsShareTheBlocksThatTheyHaveInCommon) {
  SimulatedEngine engine(SimulatedCore(200));
  engine.Submit(Beams(PromptOf(160), 4, 20));
  uint32_t most = 0;
  while (engine.core().has_work() && engine.Step()) {
    most = std::max(most, engine.cache_stats().num_blocks_in_use);
  }
  EXPECT_EQ(engine.violation(), "");
  EXPECT_GE(most, 11u);
  EXPECT_LE(most, 10u + 4u * 3u);  // four times the whole of it would be 48
}

// ---- Company, and how the work is cut

// Case N1.
TEST(EngineCoreTest, NeitherCompanyNorChunksNorArrivalChangeAnAnswer) {
  for (const int64_t budget : {1, 7, 64, 512}) {
    for (const uint32_t num_seqs : {1u, 2u, 3u, 7u, 16u}) {
      CoreOptions core = SimulatedCore(200);
      core.limits.max_num_batched_tokens = budget;
      core.limits.max_num_seqs = num_seqs;
      SimulatedEngine engine(core);
      std::vector<Request> requests;
      std::vector<std::shared_ptr<RecordingSink>> sinks;
      for (uint32_t i = 0; i < 20; ++i) {
        requests.push_back(i % 2 == 0 ? Greedy(PromptOf(3 + 5 * i, i % 4), 12)
                                      : Drawn(PromptOf(3 + 5 * i, i % 4), 12));
        sinks.push_back(engine.Submit(requests.back(), i));
        if (i % 3 == 0) {
          ASSERT_TRUE(engine.Step()) << engine.violation();
        }
      }
      ASSERT_TRUE(engine.RunAll()) << engine.violation();
      for (uint32_t i = 0; i < 20; ++i) EXPECT_AS_ALONE(engine, sinks[i], requests[i], i);
    }
  }
}

TEST(EngineCoreTest, EveryWayToKeepTheCacheGivesTheSameAnswers) {
  Request several = Drawn(PromptOf(30), 20);
  several.params.n = 3;
  Request reporting = Greedy(PromptOf(45), 6);
  reporting.params.prompt_logprobs = 0;
  const std::vector<Request> requests = {Greedy(PromptOf(45), 20), several, reporting,
                                         Beams(PromptOf(45), 3, 12), Greedy(PromptOf(45), 20)};
  for (const KvCacheMode mode :
       {KvCacheMode::kPaged, KvCacheMode::kContiguous, KvCacheMode::kNone}) {
    CoreOptions core = SimulatedCore(64);
    core.max_model_len = 80;
    core.cache.max_blocks_per_sequence = core.blocks_per_context();
    core.mode = mode;
    SimulatedEngine engine(core);
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (const Request& request : requests) sinks.push_back(engine.Submit(request, 9));
    ASSERT_TRUE(engine.RunAll()) << engine.violation();
    for (size_t i = 0; i < requests.size(); ++i) {
      EXPECT_AS_ALONE(engine, sinks[i], requests[i], 9);
      if (mode != KvCacheMode::kPaged) {
        EXPECT_EQ(sinks[i]->output().num_cached_tokens, 0);
      }
    }
    EXPECT_EQ(engine.cache_stats().num_blocks_in_use, 0u);
  }
}

TEST(EngineCoreTest, AModelThatBreaksDownEndsWhatLooksAtItAndNothingElse) {
  SimulationOptions model;
  model.breaks_down_after = 5;
  SimulatedEngine engine(SimulatedCore(64), model);
  Request sick = Greedy({2, 3, 4, 5}, 10);
  sick.params.n = 2;
  Request reporting = Greedy({2, 5, 4, 3}, 10);
  reporting.params.prompt_logprobs = 0;
  const Request sound = Greedy({2, 5, 4, 3}, 2);
  const auto sick_sink = engine.Submit(sick);
  const auto reporting_sink = engine.Submit(reporting);
  const auto sound_sink = engine.Submit(sound);
  ASSERT_TRUE(engine.RunAll()) << engine.violation();

  EXPECT_AS_ALONE(engine, sick_sink, sick, 1);
  EXPECT_AS_ALONE(engine, reporting_sink, reporting, 1);
  EXPECT_AS_ALONE(engine, sound_sink, sound, 1);
  EXPECT_EQ(sick_sink->output().outputs[1].finish_reason, FinishReason::kError);
  EXPECT_EQ(reporting_sink->output().outputs[0].finish_reason, FinishReason::kError);
  EXPECT_EQ(reporting_sink->output().prompt_logprobs.size(), 1u);
  EXPECT_EQ(sound_sink->output().outputs[0].finish_reason, FinishReason::kLength);
}

// ---- Explain

TEST(EngineCoreTest, ExplainTellsHitsPartsAndWhereTokensDiffer) {
  SimulatedEngine engine(SimulatedCore(64));
  engine.Run(Greedy(PromptOf(48), 1));
  Request request = Greedy(PromptOf(48), 1);
  request.prompt_token_ids[20] ^= 1;
  request.explain = true;

  const RequestOutput output = engine.Run(request);

  ASSERT_EQ(output.explanation.size(), 3u);
  EXPECT_EQ(output.explanation[0].match, kvcache::BlockMatch::kHit);
  EXPECT_EQ(output.explanation[1].match, kvcache::BlockMatch::kPartial);
  EXPECT_EQ(output.explanation[1].num_cached_tokens, 4);
  EXPECT_EQ(output.explanation[1].reason, kvcache::MissReason::kTokensDiffer);
  EXPECT_EQ(output.explanation[1].differs_at, 20);
  EXPECT_EQ(output.explanation[2].match, kvcache::BlockMatch::kMiss);
  EXPECT_EQ(output.explanation[2].reason, kvcache::MissReason::kNeverSeen);
  EXPECT_EQ(output.num_cached_tokens, 20);
}

TEST(EngineCoreTest, ExplainTellsWhatWasEvictedAndNothingOfAnotherSalt) {
  CoreOptions core = SimulatedCore(4);
  SimulatedEngine engine(core);
  Request request = Greedy(PromptOf(32), 1);
  request.explain = true;
  EXPECT_THAT(engine.Run(Greedy(PromptOf(32), 1)).explanation, IsEmpty());
  Request other = request;
  other.cache_salt = "other";

  for (const kvcache::BlockExplanation& block : engine.Run(other).explanation) {
    EXPECT_EQ(block.reason, kvcache::MissReason::kNeverSeen);
  }
  engine.Run(Greedy(PromptOf(60, 1), 1));  // takes the whole pool
  const RequestOutput output = engine.Run(request);

  ASSERT_EQ(output.explanation.size(), 2u);
  EXPECT_EQ(output.explanation[0].match, kvcache::BlockMatch::kMiss);
  EXPECT_EQ(output.explanation[0].reason, kvcache::MissReason::kEvicted);
  EXPECT_GT(output.explanation[0].evicted_at_ms, 0);
  EXPECT_EQ(output.num_cached_tokens, 0);
  EXPECT_EQ(DifferenceOf(output, engine.ComputeAlone(request)), "");
}

// ---- What is refused

TEST(EngineCoreTest, WhatCanNeverBeServedIsRefusedWithItsFigures) {
  CoreOptions core = SimulatedCore(8);
  core.limits.max_num_seqs = 4;
  SimulatedEngine engine(core);
  EXPECT_TRUE(engine.Check(Greedy(PromptOf(100), 28)).ok());

  const Status blocks = engine.Check(Greedy(PromptOf(100), 29));
  EXPECT_THAT(blocks.message(), HasSubstr("need 9 cache blocks, but there are 8"));
  Request many = Greedy(PromptOf(10), 4);
  many.params.n = 5;
  EXPECT_THAT(engine.Check(many).message(), HasSubstr("needs 5 sequences at once"));
  EXPECT_THAT(engine.Check(many).message(), HasSubstr("allows 4"));
  EXPECT_FALSE(engine.Check(Beams(PromptOf(10), 5, 4)).ok());
  EXPECT_FALSE(engine.Check(Beams(PromptOf(40), 4, 40)).ok());
  EXPECT_THAT(engine.Check(Greedy({}, 4)).message(), HasSubstr("empty"));
  EXPECT_THAT(engine.Check(Greedy({5, 32}, 4)).message(), HasSubstr("prompt token 1 is 32"));
  EXPECT_THAT(engine.Check(Greedy(PromptOf(512), 4)).message(), HasSubstr("max_model_len is 512"));
}

TEST(EngineCoreTest, MoreLogprobsThanTheLimitAreRefusedWithBothFigures) {
  CoreOptions core = SimulatedCore(64);
  core.max_report_bytes = 10'000;
  const SimulatedEngine engine(core);
  Request request = Greedy(PromptOf(10), 16);
  request.params.n = 4;
  request.params.logprobs = 12;
  EXPECT_TRUE(engine.Check(request).ok());  // 4 x 16 x 13 x 12 bytes
  request.params.prompt_logprobs = 0;
  EXPECT_FALSE(engine.Check(request).ok());
  request.params.prompt_logprobs.reset();
  request.params.logprobs = -1;  // all 32
  const Status status = engine.Check(request);
  EXPECT_NE(status.message().find("2112 log-probabilities of 12 bytes"), std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find("10000 bytes is the most"), std::string::npos);
}

}  // namespace
}  // namespace octavo::engine
