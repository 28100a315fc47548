#include "server/client_watch.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace octavo::server {
namespace {

constexpr std::chrono::milliseconds kPollInterval{200};

bool ClosedForReading(int descriptor) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return true;
  return info.tcpi_state != TCP_ESTABLISHED;
}

}  // namespace

ClientWatch::ClientWatch(asio::ip::tcp::socket& socket, std::string probe,
                         std::function<void()> on_gone)
    : socket_(socket),
      timer_(socket.get_executor()),
      probe_(std::move(probe)),
      on_gone_(std::move(on_gone)) {}

void ClientWatch::Start() { AwaitReadable(); }

void ClientWatch::Stop() {
  if (!on_gone_) return;
  on_gone_ = nullptr;
  timer_.cancel();
  boost::system::error_code ignored;
  socket_.cancel(ignored);
}

void ClientWatch::AwaitReadable() {
  socket_.async_wait(asio::ip::tcp::socket::wait_read,
                     [self = shared_from_this()](boost::system::error_code error) {
                       if (!self->on_gone_) return;
                       if (error) return self->Gone();
                       self->OnReadable();
                     });
}

void ClientWatch::OnReadable() {
  char byte = 0;
  const ssize_t got = ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got == 0) return OnClosedForReading();
  if (got > 0) return AwaitEnd();
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return AwaitReadable();
  Gone();
}

// The next request lies there already; only the socket's state can tell that the client has left.
void ClientWatch::AwaitEnd() {
  timer_.expires_after(kPollInterval);
  timer_.async_wait([self = shared_from_this()](boost::system::error_code error) {
    if (error || !self->on_gone_) return;
    if (ClosedForReading(self->socket_.native_handle())) return self->OnClosedForReading();
    self->AwaitEnd();
  });
}

void ClientWatch::OnClosedForReading() {
  if (probe_.empty()) return Gone();
  if (may_probe_) {
    const ssize_t sent =
        ::send(socket_.native_handle(), probe_.data(), probe_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return Gone();
  }
  AwaitReset();
}

void ClientWatch::AwaitReset() {
  socket_.async_wait(asio::ip::tcp::socket::wait_error,
                     [self = shared_from_this()](boost::system::error_code) {
                       if (self->on_gone_) self->Gone();
                     });
}

void ClientWatch::Gone() {
  const std::function<void()> on_gone = std::exchange(on_gone_, nullptr);
  on_gone();
}

}  // namespace octavo::server
