#pragma once

// Purpose:    reads one HTTP request from a connection within the limits on size and time.
// Ownership:  borrows the limits, the stream and its buffer for one call.
// Threading:  the I/O thread.
// Invariants: what is received of a body, with its framing, is bounded, and so is what all clients
//             send together; what cannot be understood becomes an error to answer with, after which
//             the connection must end, for where the next request begins is not known.

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <functional>
#include <optional>
#include <string_view>

#include "server/api_error.h"
#include "server/awaitable.h"
#include "server/body_budget.h"
#include "server/http_message.h"
#include "server/server_options.h"

namespace octavo::server {

// Tells a client to go on; a client of HTTP/1.1 takes any number of them.
inline constexpr std::string_view kContinueResponse = "HTTP/1.1 100 Continue\r\n\r\n";

struct ReadRequest {
  HttpRequest request;
  int http_version = 11;  // 10 or 11
  bool keep_alive = false;
  std::optional<BodyLease> body_lease;  // of the request's body
  std::optional<ApiError> error;        // to answer instead of the request
  bool connection_ended = false;        // nothing to answer
};

class RequestReader {
 public:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  using CheckHead = std::function<std::optional<ApiError>(const HttpRequest&)>;

  // `check_head` says why a request is refused before its body is read.
  RequestReader(const LimitOptions& limits, BodyBudget& budget, const CheckHead& check_head,
                const asio::ip::tcp::endpoint& peer)
      : limits_(limits), budget_(budget), check_head_(check_head), peer_(peer) {}

  // Waits for a request and reads it; clears *idle when its first byte is there.
  template <typename Stream>
  Awaitable<ReadRequest> Read(Stream& stream, boost::beast::tcp_stream& tcp,
                              boost::beast::flat_buffer& buffer, bool* idle) const {
    boost::system::error_code error;
    const auto token = [&error] { return asio::redirect_error(asio::use_awaitable, error); };
    if (buffer.size() == 0) {
      buffer.shrink_to_fit();
      tcp.expires_after(limits_.idle_timeout);
      buffer.commit(co_await stream.async_read_some(buffer.prepare(kFirstRead), token()));
      if (error) co_return Ended();
    }
    *idle = false;

    Parser parser;
    parser.header_limit(limits_.max_header_bytes);
    parser.body_limit(limits_.max_body_bytes);
    tcp.expires_after(limits_.header_timeout);
    co_await boost::beast::http::async_read_header(stream, buffer, parser, token());
    if (error) co_return Failed(error, parser);
    ReadRequest read = Head(parser);
    if (!read.error && !parser.is_done()) read.error = check_head_(read.request);
    if (read.error) co_return read;
    if (WantsContinue(parser)) {
      co_await asio::async_write(stream, asio::buffer(kContinueResponse), token());
      if (error) co_return Ended();
    }
    tcp.expires_after(limits_.body_timeout);
    BodyLease& lease = read.body_lease.emplace(budget_);
    size_t num_received = 0;
    while (!parser.is_done()) {
      num_received += co_await boost::beast::http::async_read_some(stream, buffer, parser, token());
      if (error) co_return Failed(error, parser);
      read.error = CheckReceived(num_received, parser, &lease);
      if (read.error) co_return read;
    }
    read.request.body = std::move(parser.get().body());
    co_return read;
  }

 private:
  static constexpr size_t kFirstRead = 2048;

  static ReadRequest Ended();
  static bool WantsContinue(const Parser& parser);
  ReadRequest Failed(boost::system::error_code error, Parser& parser) const;
  // What the header says; later fields (trailers) are not heeded.
  ReadRequest Head(const Parser& parser) const;
  std::optional<ApiError> CheckReceived(size_t num_received, const Parser& parser,
                                        BodyLease* lease) const;
  void FillHead(const Parser& parser, ReadRequest* read) const;

  const LimitOptions& limits_;
  BodyBudget& budget_;
  const CheckHead& check_head_;
  const asio::ip::tcp::endpoint& peer_;
};

}  // namespace octavo::server
