#pragma once

// Purpose:    accepts connections, within a limit, and knows those that are open.
// Ownership:  owns the acceptor; connections keep themselves.
// Threading:  the I/O thread.
// Invariants: at most max_connections are open; when one more comes, the connection that has been
//             idle for longest gives way, and if none is idle the new one gets 503. Running out of
//             file descriptors pauses accepting; it does not spin.

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <list>
#include <memory>

#include "server/connection.h"

namespace octavo::server {

class Listener {
 public:
  // `tls` may be null. REQUIRES: acceptor is listening.
  Listener(asio::ip::tcp::acceptor acceptor, asio::ssl::context* tls, uint32_t max_connections,
           const ConnectionContext& context);

  void Start();
  // Accepts nothing more.
  void Stop();
  // Ends connections between requests.
  void CloseIdle();
  void CloseAll();

  size_t num_connections() const { return connections_.size(); }
  uint16_t port() const { return port_; }

 private:
  Awaitable<void> AcceptLoop();
  void Take(asio::ip::tcp::socket socket);
  bool MakeRoom();
  static void Refuse(asio::ip::tcp::socket socket);

  asio::ip::tcp::acceptor acceptor_;
  asio::ssl::context* tls_;
  const uint32_t max_connections_;
  const ConnectionContext& context_;
  uint16_t port_;
  asio::steady_timer pause_;
  std::list<std::shared_ptr<Connection>> connections_;  // oldest first
};

}  // namespace octavo::server
