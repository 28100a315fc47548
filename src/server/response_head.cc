#include "server/response_head.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <iterator>

namespace octavo::server {
namespace {

void Append(std::string_view name, std::string_view value, std::string* text) {
  *text += name;
  *text += ": ";
  for (const char c : value) {
    if (c != '\r' && c != '\n' && c != '\0') *text += c;
  }
  *text += "\r\n";
}

std::string HttpDate() {
  return fmt::format("{:%a, %d %b %Y %H:%M:%S} GMT", fmt::gmtime(std::time(nullptr)));
}

}  // namespace

std::string ResponseHead(const HttpResponse& response, const HeadOptions& options) {
  std::string text =
      fmt::format("HTTP/1.1 {} {}\r\n", response.status, ReasonPhrase(response.status));
  Append("Date", HttpDate(), &text);
  Append("Server", "octavo", &text);
  if (response.status != 204) Append("Content-Type", response.content_type, &text);
  switch (options.framing) {
    case BodyFraming::kLength:
      if (response.status != 204) {
        Append("Content-Length", fmt::format("{}", response.body.size()), &text);
      }
      break;
    case BodyFraming::kChunked:
      Append("Transfer-Encoding", "chunked", &text);
      break;
    case BodyFraming::kUntilClose:
      break;
  }
  Append("Connection", options.keep_alive ? "keep-alive" : "close", &text);
  Append("X-Request-Id", options.request.id, &text);
  for (const Headers* headers : {&options.cors, &response.headers}) {
    for (const auto& [name, value] : *headers) Append(name, value, &text);
  }
  text += "\r\n";
  return text;
}

}  // namespace octavo::server
