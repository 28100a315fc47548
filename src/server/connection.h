#pragma once

// Purpose:    one client connection: reads requests one after the other, has them answered, and
//             keeps the limits on size and time.
// Ownership:  a connection owns its socket; it keeps itself alive while it runs.
// Threading:  the I/O thread.
// Invariants: at most one request of a connection is served at a time; what was pipelined waits in
//             the socket. A malformed or oversized request gets one answer and the connection ends.

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "server/access.h"
#include "server/api_error.h"
#include "server/body_budget.h"
#include "server/exchange.h"
#include "server/server_options.h"

namespace octavo::server {

// What the connections of a server share.
struct ConnectionContext {
  const LimitOptions& limits;
  const Access& access;
  BodyBudget& body_budget;
  // Why a request is refused before its body is read.
  std::function<std::optional<ApiError>(const HttpRequest&)> check_head;
  // Answers a request.
  std::function<Awaitable<void>(Exchange&)> handle;
  // After the answer: for the access log.
  std::function<void(const Exchange&, double seconds)> log;
  // True while the server lets connections stay open between requests.
  std::function<bool()> keeps_alive;
  // A handler that ended by an exception.
  std::function<void(std::string_view message)> log_failure;
};

class Connection {
 public:
  virtual ~Connection() = default;
  // True between two requests (and before the first).
  virtual bool idle() const = 0;
  virtual std::chrono::steady_clock::time_point idle_since() const = 0;
  // Ends the connection now.
  virtual void Close() = 0;
};

// Serves the connection until it ends, then calls `on_end`. `tls` may be null.
std::shared_ptr<Connection> StartConnection(asio::ip::tcp::socket socket, asio::ssl::context* tls,
                                            const ConnectionContext& context,
                                            std::function<void(Connection*)> on_end);

}  // namespace octavo::server
