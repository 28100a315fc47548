#pragma once

// Purpose:    notices that a client has left while its answer is being made, when nothing is read
//             from it and perhaps nothing is written to it.
// Ownership:  borrows the socket; Stop or destruction ends the watch.
// Threading:  the I/O thread.
// Invariants: `on_gone` is called at most once, from the event loop. A client that closed only its
//             sending side counts as there for as long as its side of the connection answers:
//             HTTP/1.1 allows an interim response, whose arrival at a closed socket is answered by
//             a reset.

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>

#include "server/awaitable.h"

namespace octavo::server {

class ClientWatch : public std::enable_shared_from_this<ClientWatch> {
 public:
  // `probe` may be sent to a client that has closed its sending side; empty: such a client is gone.
  ClientWatch(asio::ip::tcp::socket& socket, std::string probe, std::function<void()> on_gone);

  void Start();
  void Stop();
  // The answer's head is being sent: nothing else may be from now on.
  void ForbidProbe() { may_probe_ = false; }

 private:
  void AwaitReadable();
  void OnReadable();
  void AwaitEnd();
  void OnClosedForReading();
  void AwaitReset();
  void Gone();

  asio::ip::tcp::socket& socket_;
  asio::steady_timer timer_;
  const std::string probe_;
  std::function<void()> on_gone_;  // empty once called or stopped
  bool may_probe_ = true;
};

}  // namespace octavo::server
