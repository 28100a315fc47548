// The engine thread: what other threads hand in, and when it takes effect. On the simulated model.

#include "engine/engine_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "engine/simulation/simulated_engine.h"
#include "engine/simulation/test_requests.h"
#include "engine/stream.h"

namespace octavo::engine {
namespace {

class EngineLoopTest : public ::testing::Test {
 protected:
  std::shared_ptr<StreamState> Submit(const Request& request, RequestId* id = nullptr) {
    auto state = std::make_shared<StreamState>();
    const RequestId given = loop_->Submit(simulated_.core().Prepare(request, 1, state));
    if (id != nullptr) *id = given;
    return state;
  }

  SimulatedEngine simulated_{SimulatedCore(64)};
  std::unique_ptr<EngineLoop> loop_ = std::make_unique<EngineLoop>(simulated_.core());
};

// The engine thread is kept busy, so that the request lies in the inbox when the abort comes.
TEST_F(EngineLoopTest, AnAbortReachesWhatWasSubmittedBeforeItButNotTakenYet) {
  std::promise<void> entered;
  std::promise<void> leave;
  std::thread busy([&] {
    loop_->Call([&](EngineCore&) {
      entered.set_value();
      leave.get_future().wait();
    });
  });
  entered.get_future().wait();
  const auto before = Submit(Greedy(PromptOf(20), 400));
  loop_->AbortAll();
  const auto after = Submit(Greedy(PromptOf(20), 40));
  leave.set_value();
  busy.join();

  const RequestOutput aborted = before->WaitForEnd();
  EXPECT_EQ(aborted.outputs.front().finish_reason, FinishReason::kAbort);
  EXPECT_TRUE(aborted.outputs.front().token_ids.empty());
  const RequestOutput whole = after->WaitForEnd();
  EXPECT_EQ(whole.outputs.front().finish_reason, FinishReason::kLength);
  EXPECT_EQ(whole.outputs.front().token_ids.size(), 40u);
}

TEST_F(EngineLoopTest, ARequestThatIsAbortedWhileItWaitsEndsWithAllItsChoicesAndNoText) {
  Request request = Greedy(PromptOf(20), 400);
  request.params.n = 3;
  std::vector<FinishReason> pieces;  // by choice
  std::shared_ptr<StreamState> state;
  loop_->Call([&](EngineCore& core) {
    state = std::make_shared<StreamState>();
    auto prepared = core.Prepare(request, 1, state);
    prepared->id = 99;
    core.Add(std::move(prepared));
    EXPECT_TRUE(core.Abort(99));
    EXPECT_FALSE(core.Abort(99));
  });
  while (const std::optional<RequestUpdate> update = state->Next()) {
    EXPECT_EQ(update->index, static_cast<int32_t>(pieces.size()));
    EXPECT_TRUE(update->text.empty());
    pieces.push_back(update->finish_reason);
  }
  EXPECT_EQ(pieces, std::vector<FinishReason>(3, FinishReason::kAbort));
  const RequestOutput output = state->WaitForEnd();
  ASSERT_EQ(output.outputs.size(), 3u);
  for (int32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(output.outputs[static_cast<size_t>(i)].index, i);
    EXPECT_EQ(output.outputs[static_cast<size_t>(i)].finish_reason, FinishReason::kAbort);
  }
}

TEST_F(EngineLoopTest, DestroyingTheLoopEndsWhatRunsAndWakesWhoWaits) {
  const auto stream = Submit(Greedy(PromptOf(20), 480));
  std::future<RequestOutput> output =
      std::async(std::launch::async, [&stream] { return stream->WaitForEnd(); });
  loop_.reset();
  EXPECT_EQ(output.get().outputs.size(), 1u);
  EXPECT_FALSE(simulated_.core().has_work());
  EXPECT_EQ(simulated_.core().stats().cache.num_blocks_in_use, 0u);
}

TEST_F(EngineLoopTest, AnAbortAfterTheEndIsNothing) {
  RequestId id = 0;
  const auto stream = Submit(Greedy(PromptOf(20), 4), &id);
  EXPECT_EQ(stream->WaitForEnd().outputs.front().finish_reason, FinishReason::kLength);
  loop_->Abort(id);
  loop_->Abort(id + 1000);  // never given
  EXPECT_EQ(Submit(Greedy(PromptOf(20), 4))->WaitForEnd().outputs.front().token_ids.size(), 4u);
}

TEST_F(EngineLoopTest, WhoDoesNotWaitIsToldOfEveryPieceAndOfTheEnd) {
  std::promise<void> ended;
  std::atomic<int> num_calls = 0;
  std::shared_ptr<StreamState> state;
  std::vector<TokenId> tokens;
  state = std::make_shared<StreamState>([&] {
    ++num_calls;
    while (const std::optional<RequestUpdate> update = state->TryNext()) {
      tokens.insert(tokens.end(), update->token_ids.begin(), update->token_ids.end());
    }
    if (state->has_ended()) ended.set_value();
  });
  EXPECT_FALSE(state->has_ended());
  loop_->Submit(simulated_.core().Prepare(Greedy(PromptOf(20), 4), 1, state));
  ended.get_future().wait();
  EXPECT_EQ(num_calls, 5);  // all was taken each time: four pieces, then the end
  EXPECT_EQ(tokens, state->WaitForEnd().outputs.front().token_ids);
}

// Reads the statistics at the moment at which it hears of the end.
class StatsAtTheEnd : public RequestSink {
 public:
  explicit StatsAtTheEnd(const EngineLoop& loop) : loop_(loop) {}
  void OnDelta(const RequestDelta&) override {}
  void OnEnd(RequestOutput) override { stats_.set_value(loop_.stats()); }
  EngineStats Wait() { return stats_.get_future().get(); }

 private:
  const EngineLoop& loop_;
  std::promise<EngineStats> stats_;
};

TEST_F(EngineLoopTest, TheStatisticsCountARequestBeforeAnybodyHearsOfItsEnd) {
  const auto sink = std::make_shared<StatsAtTheEnd>(*loop_);
  loop_->Submit(simulated_.core().Prepare(Greedy(PromptOf(20), 4), 1, sink));
  const EngineStats stats = sink->Wait();
  EXPECT_EQ(stats.num_generation_tokens, 4u);
  EXPECT_EQ(stats.num_finished[static_cast<size_t>(FinishReason::kLength)], 1u);
  EXPECT_EQ(stats.num_running, 0u);
}

TEST_F(EngineLoopTest, PiecesThatNobodyWillTakeAreNotKept) {
  const auto stream = Submit(Greedy(PromptOf(20), 30));
  stream->WaitForEnd();
  EXPECT_FALSE(stream->Next().has_value());
}

}  // namespace
}  // namespace octavo::engine
