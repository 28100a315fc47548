// Bytes of a connection: whatever a client sends, the reader ends in requests or in an error,
// within its limits, and the requests do not depend on the pieces in which the bytes arrive.

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/beast/_experimental/test/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/request_reader.h"

namespace octavo::server {
namespace {

namespace beast = boost::beast;

constexpr uint64_t kMaxBodyBytes = 4096;
constexpr size_t kMaxBufferBytes = 128 << 10;

void Require(bool holds) {
  if (!holds) std::abort();
}

// What is refused when its head is there, as a key would be.
std::optional<ApiError> CheckHead(const HttpRequest& request) {
  if (request.path != "/refused") return std::nullopt;
  ApiError error;
  error.status = 401;
  return error;
}

void AddText(std::string_view text, std::vector<std::string>* seen) { seen->emplace_back(text); }

// The requests of one connection until its end, field by field.
Awaitable<void> ReadAll(beast::test::stream& stream, beast::tcp_stream& tcp,
                        std::vector<std::string>* seen) {
  LimitOptions limits;
  limits.max_header_bytes = 2048;
  limits.max_body_bytes = kMaxBodyBytes;
  BodyBudget budget(2 * kMaxBodyBytes);
  const RequestReader::CheckHead check_head = CheckHead;
  const asio::ip::tcp::endpoint peer;
  const RequestReader reader(limits, budget, check_head, peer);
  beast::flat_buffer buffer(kMaxBufferBytes);
  while (true) {
    bool idle = true;
    const ReadRequest read = co_await reader.Read(stream, tcp, buffer, &idle);
    if (read.connection_ended) co_return;
    const HttpRequest& request = read.request;
    Require(request.body.size() <= kMaxBodyBytes);
    Require(!request.id.empty());
    if (read.error) co_return;  // what is cut short may be malformed or merely incomplete
    AddText("request", seen);
    Require(request.path.starts_with('/'));
    AddText(request.method_name, seen);
    AddText(request.path, seen);
    AddText(request.body, seen);
    for (const auto& [name, value] : request.query) AddText(name + "=" + value, seen);
    for (const auto& [name, value] : request.headers) AddText(name + ":" + value, seen);
    if (!read.keep_alive) co_return;
  }
}

// Sends `bytes`, at most `piece` of them at a time.
std::vector<std::string> Serve(std::string_view bytes, size_t piece) {
  std::vector<std::string> seen;
  asio::io_context io;
  beast::tcp_stream tcp(io);
  beast::test::stream stream(io);
  stream.read_size(piece);
  stream.append(bytes);
  beast::test::stream client = beast::test::connect(stream);
  client.close();
  asio::co_spawn(io, ReadAll(stream, tcp, &seen), [](const std::exception_ptr& failure) {
    if (failure) std::rethrow_exception(failure);
  });
  io.run();
  return seen;
}

}  // namespace
}  // namespace octavo::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::vector<std::string> whole = octavo::server::Serve(bytes, size);
  const std::vector<std::string> pieces = octavo::server::Serve(bytes, 1 + data[0] % 32u);
  if (whole != pieces) std::abort();
  return 0;
}
