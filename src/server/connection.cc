#include "server/connection.h"

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <chrono>
#include <utility>

#include "server/api_error.h"
#include "server/client_watch.h"
#include "server/request_reader.h"
#include "server/response_head.h"

namespace octavo::server {
namespace {

namespace beast = boost::beast;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

// Of what is received and not parsed yet: more than the longest header, and a chunk's head.
constexpr size_t kMaxBufferBytes = 128 << 10;

beast::tcp_stream& TcpOf(beast::tcp_stream& stream) { return stream; }
beast::tcp_stream& TcpOf(beast::ssl_stream<beast::tcp_stream>& stream) {
  return stream.next_layer();
}

template <typename Stream>
constexpr bool kIsTls = std::is_same_v<Stream, beast::ssl_stream<beast::tcp_stream>>;

// The way back to the client over one kind of stream.
template <typename Stream>
class StreamExchange : public Exchange {
 public:
  StreamExchange(Stream& stream, const ConnectionContext& context, ReadRequest read)
      : Exchange(std::move(read.request), std::move(read.body_lease)),
        stream_(stream),
        context_(context),
        version_(read.http_version),
        keep_alive_(read.keep_alive) {}
  ~StreamExchange() override { StopWatch(); }

  asio::any_io_executor executor() override { return stream_.get_executor(); }

  Awaitable<bool> Send(HttpResponse response) override {
    const bool has_body = request().method != Method::kHead;
    std::string text = Head(response, BodyFraming::kLength);
    if (has_body) text += response.body;
    co_return co_await WriteAll(asio::buffer(text), /*last=*/true);
  }

  Awaitable<bool> BeginStream(HttpResponse head) override {
    is_chunked_ = version_ >= 11;
    if (!is_chunked_) keep_alive_ = false;
    const std::string text =
        Head(head, is_chunked_ ? BodyFraming::kChunked : BodyFraming::kUntilClose);
    co_return co_await WriteAll(asio::buffer(text), /*last=*/false);
  }

  Awaitable<bool> Write(std::string_view piece) override {
    if (piece.empty()) co_return is_there_;
    if (!is_chunked_) co_return co_await WriteAll(asio::buffer(piece), /*last=*/false);
    const std::string size = fmt::format("{:x}\r\n", piece.size());
    const std::array<asio::const_buffer, 3> chunk = {asio::buffer(size), asio::buffer(piece),
                                                     asio::buffer("\r\n", 2)};
    co_return co_await WriteAll(chunk, /*last=*/false);
  }

  Awaitable<bool> EndStream() override {
    if (!is_chunked_) {
      StopWatch();
      co_return is_there_;
    }
    co_return co_await WriteAll(asio::buffer("0\r\n\r\n", 5), /*last=*/true);
  }

  void WatchClient(std::function<void()> on_gone) override {
    // Under TLS a closed sending side is the end (close_notify); HTTP/1.0 knows no interim answer.
    std::string probe(kIsTls<Stream> || version_ < 11 ? std::string_view() : kContinueResponse);
    watch_ = std::make_shared<ClientWatch>(TcpOf(stream_).socket(), std::move(probe),
                                           std::move(on_gone));
    watch_->Start();
  }

  bool keep_alive() const { return keep_alive_ && is_there_ && was_answered_; }

 private:
  std::string Head(const HttpResponse& response, BodyFraming framing) {
    account().status = response.status;
    keep_alive_ = keep_alive_ && context_.keeps_alive();
    return ResponseHead(response,
                        {request(), framing, keep_alive_, context_.access.CorsHeaders(request())});
  }

  template <typename Buffers>
  Awaitable<bool> WriteAll(Buffers buffers, bool last) {
    if (!is_there_) co_return false;
    if (watch_) watch_->ForbidProbe();
    if (last) StopWatch();
    TcpOf(stream_).expires_after(context_.limits.write_timeout);
    error_code error;
    co_await asio::async_write(stream_, buffers, asio::redirect_error(asio::use_awaitable, error));
    is_there_ = !error;
    was_answered_ = last;
    co_return is_there_;
  }

  void StopWatch() {
    if (!watch_) return;
    watch_->Stop();
    watch_.reset();
  }

  Stream& stream_;
  const ConnectionContext& context_;
  int version_;
  bool keep_alive_;
  bool is_chunked_ = false;
  bool is_there_ = true;
  bool was_answered_ = false;
  std::shared_ptr<ClientWatch> watch_;
};

template <typename Stream>
class StreamConnection : public Connection,
                         public std::enable_shared_from_this<StreamConnection<Stream>> {
 public:
  StreamConnection(Stream stream, const ConnectionContext& context,
                   std::function<void(Connection*)> on_end)
      : stream_(std::move(stream)), context_(context), on_end_(std::move(on_end)) {}

  bool idle() const override { return is_idle_; }
  Clock::time_point idle_since() const override { return idle_since_; }
  void Close() override {
    error_code ignored;
    TcpOf(stream_).socket().close(ignored);
  }

  void Start() {
    auto self = this->shared_from_this();
    asio::co_spawn(
        stream_.get_executor(), [self]() -> Awaitable<void> { co_await self->Run(); },
        [self](const std::exception_ptr&) { self->on_end_(self.get()); });
  }

 private:
  Awaitable<void> Run() {
    const asio::ip::tcp::endpoint peer = TcpOf(stream_).socket().remote_endpoint(peer_error_);
    if (peer_error_) co_return;
    if constexpr (kIsTls<Stream>) {
      if (!co_await Handshake()) co_return;
    }
    bool goes_on = true;
    while (goes_on) goes_on = co_await ServeOne(peer);
    if constexpr (kIsTls<Stream>) {
      error_code ignored;
      TcpOf(stream_).expires_after(std::chrono::seconds(1));
      co_await stream_.async_shutdown(asio::redirect_error(asio::use_awaitable, ignored));
    }
    co_await Linger();
  }

  Awaitable<bool> Handshake() {
    if constexpr (kIsTls<Stream>) {
      TcpOf(stream_).expires_after(context_.limits.header_timeout);
      error_code error;
      co_await stream_.async_handshake(asio::ssl::stream_base::server,
                                       asio::redirect_error(asio::use_awaitable, error));
      co_return !error;
    }
    co_return true;
  }

  // False: the connection ends.
  Awaitable<bool> ServeOne(const asio::ip::tcp::endpoint& peer) {
    const RequestReader reader(context_.limits, context_.body_budget, context_.check_head, peer);
    is_idle_ = buffer_.size() == 0;
    idle_since_ = Clock::now();
    ReadRequest read = co_await reader.Read(stream_, TcpOf(stream_), buffer_, &is_idle_);
    if (read.connection_ended) co_return false;  // idle to the end: a newcomer may take its place
    is_idle_ = false;
    const Clock::time_point start = Clock::now();
    TcpOf(stream_).expires_never();
    const std::optional<ApiError> error = std::move(read.error);
    if (error) read.keep_alive = false;
    StreamExchange<Stream> exchange(stream_, context_, std::move(read));
    std::string failure;
    if (error) {
      co_await exchange.Send(error->Response());
    } else {
      try {
        co_await context_.handle(exchange);
      } catch (const std::exception& exception) {  // a library's, or out of memory
        failure = exception.what();
      }
    }
    if (!failure.empty()) co_await SendFailure(failure, exchange);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    context_.log(exchange, seconds);
    co_return exchange.keep_alive() && !error && failure.empty();
  }

  // A handler ended by an exception: 500, unless an answer has begun.
  Awaitable<void> SendFailure(const std::string& what, StreamExchange<Stream>& exchange) {
    context_.log_failure(fmt::format("request {} failed: {}", exchange.request().id, what));
    if (exchange.account().status != 0) co_return;
    ApiError error;
    error.status = 500;
    error.code = "internal_error";
    error.message = "the server could not answer this request";
    co_await exchange.Send(error.Response());
  }

  // Lets the last answer arrive: closing with unread input would reset the connection.
  Awaitable<void> Linger() {
    error_code error;
    TcpOf(stream_).socket().shutdown(asio::ip::tcp::socket::shutdown_send, error);
    TcpOf(stream_).expires_after(std::chrono::seconds(1));
    size_t left = 1 << 20;
    std::array<char, 4096> sink{};
    while (!error && left > sink.size()) {
      left -= co_await TcpOf(stream_).async_read_some(
          asio::buffer(sink), asio::redirect_error(asio::use_awaitable, error));
    }
  }

  Stream stream_;
  const ConnectionContext& context_;
  std::function<void(Connection*)> on_end_;
  beast::flat_buffer buffer_{kMaxBufferBytes};
  bool is_idle_ = true;
  Clock::time_point idle_since_ = Clock::now();
  error_code peer_error_;
};

template <typename Stream>
std::shared_ptr<Connection> Start(Stream stream, const ConnectionContext& context,
                                  std::function<void(Connection*)> on_end) {
  auto connection =
      std::make_shared<StreamConnection<Stream>>(std::move(stream), context, std::move(on_end));
  connection->Start();
  return connection;
}

}  // namespace

std::shared_ptr<Connection> StartConnection(asio::ip::tcp::socket socket, asio::ssl::context* tls,
                                            const ConnectionContext& context,
                                            std::function<void(Connection*)> on_end) {
  beast::tcp_stream stream(std::move(socket));
  if (tls == nullptr) return Start(std::move(stream), context, std::move(on_end));
  return Start(beast::ssl_stream<beast::tcp_stream>(std::move(stream), *tls), context,
               std::move(on_end));
}

}  // namespace octavo::server
