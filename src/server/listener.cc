#include "server/listener.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <chrono>
#include <utility>

namespace octavo::server {
namespace {

using asio::ip::tcp;
using boost::system::error_code;

// Of a socket, so that a reader who does not read soon holds the writer back.
constexpr int kSendBufferBytes = 128 << 10;

}  // namespace

Listener::Listener(tcp::acceptor acceptor, asio::ssl::context* tls, uint32_t max_connections,
                   const ConnectionContext& context)
    : acceptor_(std::move(acceptor)),
      tls_(tls),
      max_connections_(max_connections),
      context_(context),
      port_(acceptor_.local_endpoint().port()),
      pause_(acceptor_.get_executor()) {}

void Listener::Start() { asio::co_spawn(acceptor_.get_executor(), AcceptLoop(), asio::detached); }

void Listener::Stop() {
  error_code ignored;
  acceptor_.close(ignored);
  pause_.cancel();
}

void Listener::CloseIdle() {
  for (const auto& connection : connections_) {
    if (connection->idle()) connection->Close();
  }
}

void Listener::CloseAll() {
  for (const auto& connection : connections_) connection->Close();
}

Awaitable<void> Listener::AcceptLoop() {
  constexpr std::chrono::milliseconds kPause{50};
  while (acceptor_.is_open()) {
    error_code error;
    tcp::socket socket =
        co_await acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, error));
    if (!error) {
      try {
        Take(std::move(socket));
      } catch (const std::exception& exception) {  // no memory for one more
        context_.log_failure(exception.what());
      }
    } else if (acceptor_.is_open()) {
      // No descriptors, no memory, or a client that left at once.
      if (!MakeRoom()) {
        pause_.expires_after(kPause);
        co_await pause_.async_wait(asio::redirect_error(asio::use_awaitable, error));
      }
    }
  }
}

void Listener::Take(tcp::socket socket) {
  if (connections_.size() >= max_connections_ && !MakeRoom()) return Refuse(std::move(socket));
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::send_buffer_size(kSendBufferBytes), ignored);
  connections_.push_back(
      StartConnection(std::move(socket), tls_, context_, [this](Connection* ended) {
        connections_.remove_if([ended](const auto& c) { return c.get() == ended; });
      }));
}

// Closes the connection that has been idle for longest.
bool Listener::MakeRoom() {
  auto found = connections_.end();
  for (auto at = connections_.begin(); at != connections_.end(); ++at) {
    if (!(*at)->idle()) continue;
    if (found == connections_.end() || (*at)->idle_since() < (*found)->idle_since()) found = at;
  }
  if (found == connections_.end()) return false;
  const std::shared_ptr<Connection> connection = *found;
  connections_.erase(found);
  connection->Close();
  return true;
}

// One write that must not wait, and the end.
void Listener::Refuse(tcp::socket socket) {
  constexpr std::string_view kBody =
      R"({"error":{"message":"too many connections","type":"ServiceUnavailableError",)"
      R"("param":null,"code":"too_many_connections"}})";
  const std::string answer = fmt::format(
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: {}\r\n"
      "Retry-After: 1\r\nConnection: close\r\n\r\n{}",
      kBody.size(), kBody);
  ::send(socket.native_handle(), answer.data(), answer.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  error_code ignored;
  socket.shutdown(tcp::socket::shutdown_send, ignored);
}

}  // namespace octavo::server
