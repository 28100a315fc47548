// The engine under many threads: submitting, reading, aborting and asking at the same time. Run
// under ThreadSanitizer as well.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "engine/test_engine.h"

namespace octavo::engine {
namespace {

constexpr uint32_t kNumThreads = 6;
constexpr uint32_t kRequestsEach = 12;

TEST(EngineThreadsTest, ThreadsThatSubmitReadAndAbortDisturbNobody) {
  EngineOptions options = TinyOptions();
  options.model.max_model_len = 128;
  options.cache.kv_cache_memory_bytes = 3 * 128 * 1024;  // three contexts for six threads
  const std::unique_ptr<Engine> engine = MakeEngine(options);
  ASSERT_NE(engine, nullptr);
  std::vector<std::vector<uint32_t>> expected;
  for (uint32_t i = 0; i < kRequestsEach; ++i) {
    expected.push_back(
        BitsOf(MustGenerate(engine->Generate(RandomPrompt(10 + 7 * i, i), Greedy(16))).logprobs));
  }

  std::atomic<uint32_t> num_finished{0};
  const auto client = [&](uint32_t thread) {
    std::mt19937 random(thread);
    for (uint32_t i = 0; i < kRequestsEach; ++i) {
      Request request;
      request.prompt_token_ids = RandomPrompt(10 + 7 * i, i);
      request.params = Greedy(16);
      const std::unique_ptr<RequestStream> stream = *engine->Submit(std::move(request));
      const uint32_t fate = random() % 4;
      if (fate == 0) continue;  // dropped at once
      if (fate == 1 && stream->Next()) stream->Abort();
      const RequestOutput output = stream->Finish();
      if (fate == 1) continue;
      EXPECT_EQ(BitsOf(output.outputs.front().logprobs), expected[i]) << "request " << i;
      ++num_finished;
    }
  };
  std::vector<std::thread> clients;
  for (uint32_t thread = 0; thread < kNumThreads; ++thread) clients.emplace_back(client, thread);
  std::atomic<bool> done{false};
  std::thread observer([&] {
    while (!done.load()) {
      EXPECT_LE(engine->stats().num_running, kNumThreads * kRequestsEach);
      EXPECT_TRUE(engine->CheckIntegrity().ok());
      engine->Explain(RandomPrompt(60, 3));
      engine->ResetPrefixCache();
    }
  });
  for (std::thread& thread : clients) thread.join();
  done.store(true);
  observer.join();

  EXPECT_GT(num_finished.load(), 0u);
  const Status sound = engine->CheckIntegrity();  // after the last abort
  EXPECT_TRUE(sound.ok()) << sound.message();
  EXPECT_EQ(engine->stats().num_running + engine->stats().num_waiting, 0u);
  EXPECT_EQ(engine->stats().cache.num_blocks_in_use, 0u);
}

TEST(EngineThreadsTest, AnAbortIsFollowedByTheEndAndTheEngineCanGo) {
  for (int round = 0; round < 5; ++round) {
    std::unique_ptr<Engine> engine = MakeEngine(TinyOptions());
    Request request;
    request.prompt_token_ids = RandomPrompt(40);
    request.params = Greedy(400);
    std::unique_ptr<RequestStream> stream = *engine->Submit(std::move(request));
    engine->Abort();
    EXPECT_EQ(stream->Finish().outputs.size(), 1u);
    stream.reset();
    engine.reset();
  }
}

}  // namespace
}  // namespace octavo::engine
