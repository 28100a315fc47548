#pragma once

// Purpose:    the coroutine type of the server's handlers, and the way to the worker threads.
// Ownership:  none.
// Threading:  a handler runs on the I/O thread; what it offloads, on a worker.
// Invariants: none.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <type_traits>
#include <utility>

namespace octavo::server {

namespace asio = boost::asio;

template <typename T>
using Awaitable = asio::awaitable<T>;

// Runs `work` on a worker and comes back to the caller's executor with its result. `work` must be a
// named object: g++ 12 destroys a lambda's captures twice when it is a temporary of a co_await.
template <typename Work>
Awaitable<std::invoke_result_t<Work&>> Offload(asio::thread_pool& workers, Work& work) {
  auto run = [&work]() -> Awaitable<std::invoke_result_t<Work&>> { co_return work(); };
  co_return co_await asio::co_spawn(workers, run, asio::use_awaitable);
}

}  // namespace octavo::server
