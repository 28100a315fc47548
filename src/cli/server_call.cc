#include "cli/server_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <cstdint>
#include <future>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "base/environment.h"
#include "formats/gguf_value.h"

namespace octavo::cli {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

using Endpoints = asio::ip::tcp::resolver::results_type;
using Deadline = std::chrono::steady_clock::time_point;

constexpr uint64_t kMaxServerAnswerBytes = uint64_t{1} << 28;

struct Found {
  error_code error;
  Endpoints endpoints;
};

Found LookUp(const std::string& host, const std::string& port,
             asio::ip::resolver_base::flags flags = {}) {
  asio::io_context io{1};
  asio::ip::tcp::resolver resolver(io);
  Found found;
  found.endpoints = resolver.resolve(host, port, flags, found.error);
  return found;
}

Status TooLate(const bench::ServingTarget& target) {
  return Status::Unavailable(
      fmt::format("no answer from {} within {} s", bench::HostHeader(target), target.timeout_s));
}

// The system's look-up of a name cannot be cut short: a thread of its own goes on with it, which
// nobody waits for. An address in figures needs none.
Result<Endpoints> FindAddresses(const bench::ServingTarget& target, Deadline deadline) {
  const auto numeric = asio::ip::resolver_base::numeric_host;
  Found found = LookUp(target.host, target.port, numeric);
  if (!found.error) return found.endpoints;
  std::packaged_task<Found()> look_up(
      [host = target.host, port = target.port] { return LookUp(host, port); });
  std::future<Found> look_up_end = look_up.get_future();
  try {
    std::thread(std::move(look_up)).detach();
  } catch (const std::system_error& error) {
    return Status::ResourceExhausted(fmt::format("cannot start a thread that looks up {}: {}",
                                                 bench::HostHeader(target), error.what()));
  }
  if (look_up_end.wait_until(deadline) != std::future_status::ready) return TooLate(target);
  found = look_up_end.get();
  if (!found.error) return found.endpoints;
  return Status::Unavailable(
      fmt::format("{}: {}", bench::HostHeader(target), found.error.message()));
}

struct ServerAnswer {
  error_code error;
  unsigned status = 0;
  std::string body;
};

asio::awaitable<void> Exchange(beast::tcp_stream& stream, const Endpoints& endpoints,
                               const http::request<http::string_body>& request,
                               ServerAnswer* answer) {
  error_code& error = answer->error;
  co_await stream.async_connect(endpoints, asio::redirect_error(asio::use_awaitable, error));
  if (!error) {
    co_await http::async_write(stream, request, asio::redirect_error(asio::use_awaitable, error));
    // A server may refuse a body before it has read all of it: its answer says why.
    if (error == asio::error::broken_pipe || error == asio::error::connection_reset) error = {};
  }
  if (error) co_return;
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(kMaxServerAnswerBytes);
  co_await http::async_read(stream, buffer, parser,
                            asio::redirect_error(asio::use_awaitable, error));
  answer->status = parser.get().result_int();
  answer->body = std::move(parser.get().body());
}

http::request<http::string_body> MakePost(const bench::ServingTarget& target,
                                          const boost::json::object& body) {
  http::request<http::string_body> request(http::verb::post, target.path, 11);
  request.set(http::field::host, bench::HostHeader(target));
  request.set(http::field::content_type, "application/json");
  request.set(http::field::connection, "close");
  if (!target.api_key.empty()) request.set(http::field::authorization, "Bearer " + target.api_key);
  request.body() = boost::json::serialize(body);
  request.prepare_payload();
  return request;
}

// The beginning of what a server sent, as it may stand in a message.
std::string Quoted(std::string_view bytes) { return formats::Quote(bytes, 500); }

// error.message of an OpenAI error, else what came; quoted.
std::string MessageOf(const std::string& body) {
  error_code error;
  const boost::json::value value = boost::json::parse(body, error);
  if (!error && value.is_object()) {
    const boost::json::value* failure = value.get_object().if_contains("error");
    if (failure != nullptr && failure->is_object()) {
      const boost::json::value* message = failure->get_object().if_contains("message");
      if (message != nullptr && message->is_string()) return Quoted(message->get_string());
    }
  }
  return Quoted(body);
}

Result<boost::json::object> ReadAnswer(const std::string& address, const std::string& path,
                                       const ServerAnswer& answer) {
  if (answer.status == 404) {
    return Status::NotFound(fmt::format("{} has no {}: is it an octavo server? ({})", address, path,
                                        MessageOf(answer.body)));
  }
  if (answer.status == 401) {
    return Status::InvalidArgument(fmt::format("{} answers: {}; set OCTAVO_API_KEY to the key",
                                               address, MessageOf(answer.body)));
  }
  if (answer.status < 400 && answer.status != 200) {
    return Status::DataLoss(fmt::format("{} answers {} instead of 200: is it an octavo server?",
                                        address, answer.status));
  }
  if (answer.status != 200) {
    std::string message =
        fmt::format("{} answers {}: {}", address, answer.status, MessageOf(answer.body));
    return answer.status < 500 && answer.status != 429 ? Status::InvalidArgument(std::move(message))
                                                       : Status::Unavailable(std::move(message));
  }
  error_code error;
  boost::json::value value = boost::json::parse(answer.body, error);
  if (error || !value.is_object()) {
    return Status::DataLoss(
        fmt::format("{} answers no JSON object: {}", address, Quoted(answer.body)));
  }
  return std::move(value.get_object());
}

}  // namespace

Result<std::string> ReadApiKey() {
  std::string key = base::ReadEnvironment("OCTAVO_API_KEY").value_or("");
  const auto odd = std::ranges::find_if(key, [](char c) { return c < ' ' || c > '~'; });
  if (odd == key.end()) return key;
  return Status::InvalidArgument(
      fmt::format("OCTAVO_API_KEY: the byte {:#04x} at offset {} cannot stand in an HTTP header",
                  static_cast<unsigned char>(*odd), odd - key.begin()));
}

Result<boost::json::object> PostJson(const bench::ServingTarget& target,
                                     const boost::json::object& body) {
  const std::string address = bench::HostHeader(target);
  const Deadline deadline = std::chrono::steady_clock::now() +
                            std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                std::chrono::duration<double>(target.timeout_s));
  const Result<Endpoints> endpoints = FindAddresses(target, deadline);
  if (!endpoints.ok()) return endpoints.status();
  asio::io_context io{1};
  ServerAnswer answer;
  const http::request<http::string_body> request = MakePost(target, body);
  beast::tcp_stream stream(io);
  stream.expires_at(deadline);
  asio::co_spawn(io, Exchange(stream, *endpoints, request, &answer), asio::detached);
  io.run();
  if (answer.error == beast::error::timeout) return TooLate(target);
  if (answer.error) {
    return Status::Unavailable(fmt::format("no answer from {}: {}; is octavo serve running there?",
                                           address, answer.error.message()));
  }
  return ReadAnswer(address, target.path, answer);
}

}  // namespace octavo::cli
