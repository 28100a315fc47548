// What handlers offload comes back as soon as it is done.

#include "server/awaitable.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

namespace octavo::server {
namespace {

TEST(OffloadTest, AResultDoesNotWaitForTheWorkThatIsQueuedBehindIt) {
  asio::io_context io(1);
  Workers workers(1);
  std::promise<void> first_is_back;
  std::future_status seen = std::future_status::timeout;
  auto first = [&]() -> Awaitable<void> {
    auto work = [] { return 1; };
    EXPECT_EQ(co_await Offload(workers, work), 1);
    first_is_back.set_value();
  };
  auto second = [&]() -> Awaitable<void> {
    auto work = [&] {
      seen = first_is_back.get_future().wait_for(std::chrono::seconds(20));
      return 2;
    };
    EXPECT_EQ(co_await Offload(workers, work), 2);
  };
  asio::co_spawn(io, first, asio::detached);
  asio::co_spawn(io, second, asio::detached);

  io.run();  // to the end of both: what is offloaded keeps it going

  EXPECT_EQ(seen, std::future_status::ready);
}

TEST(OffloadTest, WhatIsQueuedWhenTheWorkersFinishComesBackEmpty) {
  asio::io_context io(1);
  Workers workers(1);
  std::promise<void> has_begun;
  std::promise<void> may_end;
  std::vector<int> results;
  auto offload = [&](int value) -> Awaitable<void> {
    auto work = [&] {
      if (value == 1) {
        has_begun.set_value();
        may_end.get_future().wait();
      }
      return value;
    };
    results.push_back(co_await Offload(workers, work));
  };
  asio::co_spawn(io, offload(1), asio::detached);
  asio::co_spawn(io, offload(2), asio::detached);
  io.poll();  // now both stand in the pool
  std::thread runs([&io] { io.run(); });
  has_begun.get_future().wait();
  std::thread finishes([&workers] { workers.Finish(); });
  while (!workers.is_finishing()) std::this_thread::yield();
  may_end.set_value();
  finishes.join();
  runs.join();

  EXPECT_EQ(results, (std::vector<int>{1, 0}));
}

TEST(OffloadTest, AnExceptionComesBackAsOne) {
  asio::io_context io(1);
  Workers workers(1);
  bool is_caught = false;
  auto call = [&]() -> Awaitable<void> {
    auto work = []() -> int { throw std::runtime_error("no"); };
    try {
      co_await Offload(workers, work);
    } catch (const std::runtime_error&) {
      is_caught = true;
    }
  };
  asio::co_spawn(io, call, asio::detached);
  io.run();
  EXPECT_TRUE(is_caught);
}

}  // namespace
}  // namespace octavo::server
