#include "server/request_reader.h"

#include <fmt/format.h>

#include <boost/beast/core/error.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <utility>

#include "server/request_id.h"
#include "server/target.h"

namespace octavo::server {
namespace {

namespace http = boost::beast::http;

constexpr size_t kMaxQuoted = 100;  // bytes of a header in a message

Method MethodOf(http::verb verb) {
  switch (verb) {
    case http::verb::get:
      return Method::kGet;
    case http::verb::head:
      return Method::kHead;
    case http::verb::post:
      return Method::kPost;
    case http::verb::options:
      return Method::kOptions;
    default:
      return Method::kOther;
  }
}

ApiError HttpError(int status, std::string code, std::string message) {
  ApiError error;
  error.status = status;
  error.code = std::move(code);
  error.message = std::move(message);
  return error;
}

// The client left or fell silent: there is nobody to answer.
bool IsEnd(boost::system::error_code error) {
  return error.category() != http::make_error_code(http::error::bad_method).category() ||
         error == http::error::end_of_stream || error == http::error::partial_message;
}

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// A body in a coding that is not understood has no known end: read as none, it would be taken for
// the next request.
std::optional<ApiError> CheckCoding(const HttpRequest& request, int http_version) {
  const size_t count = request.CountHeader("transfer-encoding");
  if (count == 0) return std::nullopt;
  if (http_version < 11) {
    return HttpError(400, "malformed_http", "HTTP/1.0 has no Transfer-Encoding");
  }
  const std::string_view coding = request.Header("transfer-encoding");
  if (count == 1 && LowerCase(coding) == "chunked") return std::nullopt;
  return HttpError(501, "unknown_transfer_coding",
                   fmt::format("Transfer-Encoding is '{}'{}, but only 'chunked' is understood",
                               coding.substr(0, kMaxQuoted), count > 1 ? " and more" : ""));
}

}  // namespace

ReadRequest RequestReader::Ended() {
  ReadRequest read;
  read.connection_ended = true;
  return read;
}

bool RequestReader::WantsContinue(const Parser& parser) {
  return parser.get().version() >= 11 && !parser.is_done() &&
         LowerCase(parser.get()[http::field::expect]) == "100-continue";
}

ReadRequest RequestReader::Failed(boost::system::error_code error, Parser& parser) const {
  if (IsEnd(error)) return Ended();
  ReadRequest read;
  FillHead(parser, &read);
  // For the access log; a target that is no path stays unknown.
  static_cast<void>(ParseTarget(parser.get().target(), &read.request));
  if (error == http::error::body_limit) {
    read.error = HttpError(413, "body_too_large",
                           fmt::format("the body is longer than {} bytes", limits_.max_body_bytes));
  } else if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    read.error =
        HttpError(431, "headers_too_large",
                  fmt::format("the headers are longer than {} bytes", limits_.max_header_bytes));
  } else {
    read.error =
        HttpError(400, "malformed_http", fmt::format("malformed HTTP: {}", error.message()));
  }
  return read;
}

ReadRequest RequestReader::Head(const Parser& parser) const {
  ReadRequest read;
  FillHead(parser, &read);
  read.keep_alive = parser.keep_alive();
  if (read.http_version >= 11 && read.request.CountHeader("host") != 1) {
    read.error = HttpError(400, "malformed_http", "HTTP/1.1 needs exactly one Host header");
  } else if (!ParseTarget(parser.get().target(), &read.request)) {
    read.error = HttpError(400, "malformed_http", "the request's target is not a path");
  } else {
    read.error = CheckCoding(read.request, read.http_version);
  }
  return read;
}

// A chunk's head may be longer than its content, but not without end.
std::optional<ApiError> RequestReader::CheckReceived(size_t num_received, const Parser& parser,
                                                     BodyLease* lease) const {
  constexpr uint64_t kFramingBytes = 1 << 20;
  if (num_received > 2 * limits_.max_body_bytes + kFramingBytes) {
    return HttpError(413, "body_too_large",
                     fmt::format("the body's framing is longer than {} bytes",
                                 limits_.max_body_bytes + kFramingBytes));
  }
  if (!lease->GrowTo(parser.get().body().size())) {
    return HttpError(503, "unavailable",
                     fmt::format("the bodies that are received or wait have more than {} bytes",
                                 limits_.max_buffered_body_bytes));
  }
  return std::nullopt;
}

void RequestReader::FillHead(const Parser& parser, ReadRequest* read) const {
  const auto& message = parser.get();
  HttpRequest& request = read->request;
  read->http_version = static_cast<int>(message.version());
  request.method = MethodOf(message.method());
  request.method_name = message.method_string();
  for (const auto& field : message) {
    request.headers.emplace_back(LowerCase(field.name_string()), field.value());
  }
  request.remote = fmt::format("{}:{}", peer_.address().to_string(), peer_.port());
  request.is_local = peer_.address().is_loopback();
  request.id = IsRequestId(request.Header("x-request-id"))
                   ? std::string(request.Header("x-request-id"))
                   : DrawRequestId();
}

}  // namespace octavo::server
