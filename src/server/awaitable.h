#pragma once

// Purpose:    the coroutine type of the server's handlers, and the way to the worker threads.
// Ownership:  none.
// Threading:  a handler runs on the I/O thread; what it offloads, on a worker.
// Invariants: every Offload comes back, also after Finish; it may begin beside a Finish only if the
//             handlers' thread calls that itself, or no longer runs. What comes back empty then is
//             not sent: the server has closed its connections before.

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstddef>
#include <exception>
#include <type_traits>
#include <utility>

namespace octavo::server {

namespace asio = boost::asio;

template <typename T>
using Awaitable = asio::awaitable<T>;

// Threads for what takes longer than moving bytes.
class Workers {
 public:
  explicit Workers(size_t num_threads) : pool_(num_threads) {}

  // From now on nothing begins: it comes back with a default value.
  void BeginFinish() { is_finishing_ = true; }
  // The same, and waits for what runs.
  void Finish() {
    BeginFinish();
    pool_.join();
  }
  bool is_finishing() const { return is_finishing_; }
  asio::thread_pool& pool() { return pool_; }

 private:
  std::atomic<bool> is_finishing_ = false;
  asio::thread_pool pool_;
};

// Runs `work` on a worker and comes back to the caller's executor with its result. `work` must be a
// named object: g++ 12 destroys a lambda's captures twice when it is a temporary of a co_await.
template <typename Work>
Awaitable<std::invoke_result_t<Work&>> Offload(Workers& workers, Work& work) {
  using Value = std::invoke_result_t<Work&>;
  if (workers.is_finishing()) co_return Value();  // a pool that has been joined runs nothing
  Value value{};
  std::exception_ptr failure;
  // Counts as work of the caller's executor, which would end otherwise while it waits.
  const auto home =
      asio::prefer(co_await asio::this_coro::executor, asio::execution::outstanding_work.tracked);
  auto start = [&](auto resume) {
    asio::post(workers.pool(), [&, resume = std::move(resume)]() mutable {
      try {
        if (!workers.is_finishing()) value = work();
      } catch (...) {
        failure = std::current_exception();
      }
      asio::post(home, std::move(resume));  // at once: other work may be queued in the pool
    });
  };
  co_await asio::async_initiate<const asio::use_awaitable_t<>, void()>(start, asio::use_awaitable);
  if (failure) std::rethrow_exception(failure);
  co_return value;
}

}  // namespace octavo::server
