// Who asks the engine, who waits for it, and who is gone.

#include "server/question_line.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace octavo::server {
namespace {

class FakeExchange : public Exchange {
 public:
  explicit FakeExchange(asio::io_context& io) : Exchange({}, std::nullopt), io_(io) {}

  asio::any_io_executor executor() override { return io_.get_executor(); }
  Awaitable<bool> Send(HttpResponse response) override {
    sent.push_back(std::move(response));
    co_return true;
  }
  Awaitable<bool> BeginStream(HttpResponse) override { co_return false; }
  Awaitable<bool> Write(std::string_view) override { co_return false; }
  Awaitable<bool> EndStream() override { co_return false; }
  void WatchClient(std::function<void()> on_gone) override { leave = std::move(on_gone); }

  std::vector<HttpResponse> sent;
  std::function<void()> leave;

 private:
  asio::io_context& io_;
};

// A client whose question the engine answers with its number, once it may.
class Client {
 public:
  Client(asio::io_context& io, int number) : exchange(io), number_(number) {}

  Awaitable<void> Put(QuestionLine& line) {
    auto ask = [this] {
      begins_.set_value();
      may_answer_.get_future().wait();
      return number_;
    };
    answer = co_await line.Put(exchange, ask);
    has_ended = true;
  }

  void LetAnswer() {
    if (!std::exchange(is_let_, true)) may_answer_.set_value();
  }
  // Waits for the engine to be asked.
  bool IsAsked() { return asked_.wait_for(std::chrono::seconds(20)) == std::future_status::ready; }
  bool IsAskedAlready() {
    return asked_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

  FakeExchange exchange;
  bool has_ended = false;
  std::optional<int> answer;

 private:
  const int number_;
  bool is_let_ = false;
  std::promise<void> begins_;
  std::future<void> asked_ = begins_.get_future();
  std::promise<void> may_answer_;
};

// One question at a time, and two that wait.
class QuestionLineTest : public testing::Test {
 protected:
  ~QuestionLineTest() override {
    for (Client& client : clients_) client.LetAnswer();
    io_.run();  // to the end of all
    line_.workers().Finish();
  }

  Client& Ask() {
    Client& client = clients_.emplace_back(io_, static_cast<int>(clients_.size()));
    asio::co_spawn(io_, client.Put(line_), asio::detached);
    io_.poll();
    return client;
  }
  void RunUntilEnd(const Client& client) {
    while (!client.has_ended) io_.run_one();
    io_.poll();
  }

  asio::io_context io_{1};
  QuestionLine line_{1, 3, "prompts wait"};
  std::list<Client> clients_;
};

TEST_F(QuestionLineTest, WhoFindsNoPlaceIsToldHowManyWait) {
  for (int i = 0; i < 3; ++i) Ask();

  const Client& fourth = Ask();

  ASSERT_TRUE(fourth.has_ended);
  EXPECT_FALSE(fourth.answer.has_value());
  ASSERT_EQ(fourth.exchange.sent.size(), 1U);
  EXPECT_EQ(fourth.exchange.sent[0].status, 429);
  EXPECT_NE(fourth.exchange.sent[0].body.find("3 prompts wait, which is the most; try again later"),
            std::string::npos);
}

TEST_F(QuestionLineTest, QuestionsAreAskedInTheOrderOfTheirComingNoMoreThanThereAreTurns) {
  Client& first = Ask();
  Client& second = Ask();
  Client& third = Ask();

  EXPECT_TRUE(first.IsAsked());
  EXPECT_FALSE(second.IsAskedAlready());
  first.LetAnswer();
  RunUntilEnd(first);
  EXPECT_TRUE(second.IsAsked());
  EXPECT_FALSE(third.IsAskedAlready());
  second.LetAnswer();
  RunUntilEnd(second);
  EXPECT_TRUE(third.IsAsked());
  third.LetAnswer();
  RunUntilEnd(third);

  EXPECT_EQ(first.answer, 0);
  EXPECT_EQ(second.answer, 1);
  EXPECT_EQ(third.answer, 2);
}

TEST_F(QuestionLineTest, AnAnswerMakesRoomForTheNextOne) {
  Client& first = Ask();
  Ask();
  Ask();
  first.LetAnswer();
  RunUntilEnd(first);

  EXPECT_TRUE(Ask().exchange.sent.empty());
  EXPECT_EQ(Ask().exchange.sent.size(), 1U);
}

TEST_F(QuestionLineTest, WhoLeavesBeforeItsTurnIsGoneAtOnceAndNeverAsked) {
  Client& first = Ask();
  Client& second = Ask();
  Client& third = Ask();
  EXPECT_TRUE(first.IsAsked());

  second.exchange.leave();
  io_.poll();

  EXPECT_TRUE(second.has_ended);
  EXPECT_FALSE(second.answer.has_value());
  EXPECT_EQ(second.exchange.account().status, 499);
  EXPECT_FALSE(first.has_ended);
  Client& fourth = Ask();
  EXPECT_TRUE(fourth.exchange.sent.empty());
  first.LetAnswer();
  RunUntilEnd(first);
  EXPECT_TRUE(third.IsAsked());
  EXPECT_FALSE(second.IsAskedAlready());
}

TEST_F(QuestionLineTest, WhoLeavesDuringItsTurnKeepsItsPlaceUntilTheEngineHasAnswered) {
  Client& first = Ask();
  Ask();
  Ask();
  EXPECT_TRUE(first.IsAsked());

  first.exchange.leave();
  io_.poll();

  EXPECT_FALSE(first.has_ended);
  EXPECT_EQ(Ask().exchange.sent.size(), 1U);  // 429
  first.LetAnswer();
  RunUntilEnd(first);
  EXPECT_FALSE(first.answer.has_value());
  EXPECT_EQ(first.exchange.account().status, 499);
  EXPECT_TRUE(Ask().exchange.sent.empty());
}

}  // namespace
}  // namespace octavo::server
