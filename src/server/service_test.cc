// What all handlers share, without an engine.

#include "server/service.h"

#include <gtest/gtest.h>

#include <boost/asio/post.hpp>
#include <chrono>
#include <future>
#include <thread>

namespace octavo::server {
namespace {

TEST(ServiceTest, NoKindOfWorkersBeginsAnythingWhileAnotherStillWorks) {
  Service service(ServerOptions(), "0");
  std::promise<void> may_end;
  asio::post(service.workers().pool(), [&] { may_end.get_future().wait(); });
  std::thread finishes([&service] { service.FinishWorkers(); });

  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const auto all_are_finishing = [&service] {
    return service.workers().is_finishing() && service.compile_workers().is_finishing() &&
           service.client_questions().workers().is_finishing() &&
           service.admin_questions().workers().is_finishing();
  };
  while (!all_are_finishing() && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(all_are_finishing());  // and the first kind still works

  may_end.set_value();
  finishes.join();
}

}  // namespace
}  // namespace octavo::server
