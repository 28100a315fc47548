#pragma once

// Purpose:    what a handler waits on: somebody says that there is something to do.
// Ownership:  shared by the handler and by those who raise it, any of whom may be last.
// Threading:  Raise and Wait on the I/O thread; RaiseFrom on any thread.
// Invariants: a Raise between two Waits is not lost; one coroutine waits at a time.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>

#include "server/awaitable.h"

namespace octavo::server {

class SignalFlag : public std::enable_shared_from_this<SignalFlag> {
 public:
  explicit SignalFlag(const asio::any_io_executor& executor)
      : timer_(executor, asio::steady_timer::time_point::max()) {}

  void Raise() {
    raised_ = true;
    timer_.cancel();
  }
  // From another thread.
  void RaiseFrom() {
    asio::post(timer_.get_executor(), [weak = weak_from_this()] {
      if (const std::shared_ptr<SignalFlag> flag = weak.lock()) flag->Raise();
    });
  }
  // Waits for a Raise since the last Wait.
  Awaitable<void> Wait() {
    while (!raised_) {
      boost::system::error_code cancelled;
      co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
    }
    raised_ = false;
  }

 private:
  asio::steady_timer timer_;
  bool raised_ = false;
};

}  // namespace octavo::server
