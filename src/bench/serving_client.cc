#include "bench/serving_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/algorithm/string/predicate.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address_v6.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <chrono>
#include <deque>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

namespace octavo::bench {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace json = boost::json;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kMaxAnswerBytes = uint64_t{1} << 28;

// Lets at most `limit` coroutines in; the others wait in order.
class Gate {
 public:
  Gate(asio::io_context& io, int32_t limit) : io_(io), limit_(limit) {}

  asio::awaitable<void> Enter() {
    if (limit_ == 0 || num_inside_ < limit_) {
      ++num_inside_;
      co_return;
    }
    const auto turn = std::make_shared<asio::steady_timer>(io_, Clock::time_point::max());
    waiting_.push_back(turn);
    error_code called;
    co_await turn->async_wait(asio::redirect_error(asio::use_awaitable, called));
  }
  // The place goes to the one who has waited for longest.
  void Leave() {
    if (waiting_.empty()) {
      --num_inside_;
      return;
    }
    waiting_.front()->cancel();
    waiting_.pop_front();
  }

 private:
  asio::io_context& io_;
  const int32_t limit_;
  int32_t num_inside_ = 0;
  std::deque<std::shared_ptr<asio::steady_timer>> waiting_;
};

// Reads a stream of events as it grows.
class EventReader {
 public:
  EventReader(ServedRequest* served, Clock::time_point sent) : served_(*served), sent_(sent) {}

  void Take(std::string_view body) {
    const double now = std::chrono::duration<double>(Clock::now() - sent_).count();
    while (true) {
      const size_t end = body.find("\n\n", position_);
      if (end == std::string_view::npos) return;
      TakeEvent(body.substr(position_, end - position_), now);
      position_ = end + 2;
    }
  }
  bool is_complete() const { return is_done_ && has_begun_; }

 private:
  void TakeEvent(std::string_view event, double now) {
    constexpr std::string_view kData = "data: ";
    if (!event.starts_with(kData)) return;
    event.remove_prefix(kData.size());
    if (event == "[DONE]") {
      is_done_ = true;
      return;
    }
    error_code error;
    const json::value value = json::parse(event, error);
    if (error || !value.is_object()) return;
    if (const json::value* failure = value.get_object().if_contains("error")) {
      served_.error = json::serialize(*failure);
    }
    if (const json::value* choices = value.get_object().if_contains("choices");
        choices != nullptr && choices->is_array() && !choices->get_array().empty()) {
      NoteChunk(now);
    }
    if (const json::value* usage = value.get_object().if_contains("usage");
        usage != nullptr && usage->is_object()) {
      NoteUsage(usage->get_object());
    }
  }

  void NoteChunk(double now) {
    if (has_begun_) {
      served_.itl_s.push_back(now - served_.latency_s);
    } else {
      served_.ttft_s = now;
    }
    has_begun_ = true;
    served_.latency_s = now;
  }

  void NoteUsage(const json::object& usage) {
    const auto read = [](const json::object& object, const char* name) -> int64_t {
      const json::value* value = object.if_contains(name);
      return value != nullptr && value->is_int64() ? value->get_int64() : 0;
    };
    served_.num_prompt_tokens = read(usage, "prompt_tokens");
    served_.num_output_tokens = read(usage, "completion_tokens");
    const json::value* details = usage.if_contains("prompt_tokens_details");
    if (details != nullptr && details->is_object()) {
      served_.num_cached_tokens = read(details->get_object(), "cached_tokens");
    }
  }

  ServedRequest& served_;
  const Clock::time_point sent_;
  size_t position_ = 0;
  bool has_begun_ = false;
  bool is_done_ = false;
};

class LoadRunner {
 public:
  LoadRunner(const ServingTarget& target, const std::function<void(size_t)>& on_progress)
      : target_(target), on_progress_(on_progress), gate_(io_, target.max_concurrency) {}

  Result<LoadRun> Run(const std::vector<Conversation>& load) {
    error_code error;
    tcp::resolver resolver(io_);
    endpoints_ = resolver.resolve(target_.host, target_.port, error);
    if (error) {
      return Status::Unavailable(
          fmt::format("{}:{}: {}", target_.host, target_.port, error.message()));
    }
    tcp::socket probe(io_);
    asio::connect(probe, endpoints_, error);
    if (error) {
      return Status::Unavailable(
          fmt::format("nothing listens on {}:{}: {}", target_.host, target_.port, error.message()));
    }
    probe.close(error);
    start_ = Clock::now();
    for (const Conversation& conversation : load) {
      asio::co_spawn(io_, Hold(conversation), asio::detached);
    }
    io_.run();
    run_.duration_s = std::chrono::duration<double>(Clock::now() - start_).count();
    return std::move(run_);
  }

 private:
  // One conversation, turn by turn.
  asio::awaitable<void> Hold(const Conversation& conversation) {
    asio::steady_timer arrival(io_,
                               start_ + std::chrono::duration_cast<Clock::duration>(
                                            std::chrono::duration<double>(conversation.arrival_s)));
    error_code ignored;
    co_await arrival.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    for (const Turn& turn : conversation.turns) {
      co_await gate_.Enter();
      ServedRequest served;
      co_await Serve(turn, &served);
      gate_.Leave();
      run_.requests.push_back(std::move(served));
      if (on_progress_) on_progress_(run_.requests.size());
    }
  }

  asio::awaitable<void> Serve(const Turn& turn, ServedRequest* served) {
    const Clock::time_point sent = Clock::now();
    served->sent_s = std::chrono::duration<double>(sent - start_).count();
    beast::tcp_stream stream(io_);
    stream.expires_after(std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(target_.timeout_s)));
    error_code error;
    co_await stream.async_connect(endpoints_, asio::redirect_error(asio::use_awaitable, error));
    const http::request<http::string_body> request = MakeRequest(turn);
    if (!error) {
      co_await http::async_write(stream, request, asio::redirect_error(asio::use_awaitable, error));
    }
    if (error) {
      served->error = error.message();
      co_return;
    }
    co_await ReadAnswer(stream, sent, served);
  }

  asio::awaitable<void> ReadAnswer(beast::tcp_stream& stream, Clock::time_point sent,
                                   ServedRequest* served) {
    beast::flat_buffer buffer;
    http::response_parser<http::string_body> parser;
    parser.body_limit(kMaxAnswerBytes);
    EventReader events(served, sent);
    error_code error;
    while (!error && !parser.is_done()) {
      co_await http::async_read_some(stream, buffer, parser,
                                     asio::redirect_error(asio::use_awaitable, error));
      if (parser.is_header_done() && parser.get().result() == http::status::ok) {
        events.Take(parser.get().body());
      }
    }
    if (error && error != http::error::end_of_stream) {
      served->error = error.message();
    } else if (parser.get().result() != http::status::ok) {
      served->error =
          fmt::format("HTTP {}: {}", parser.get().result_int(), parser.get().body().substr(0, 500));
    } else if (served->error.empty() && !events.is_complete()) {
      served->error = "the stream ended early";
    }
  }

  http::request<http::string_body> MakeRequest(const Turn& turn) const {
    json::object body{{"prompt", json::array(turn.prompt.begin(), turn.prompt.end())},
                      {"max_tokens", turn.num_output_tokens},
                      {"temperature", 0},
                      {"stream", true},
                      {"stream_options", {{"include_usage", true}}}};
    if (target_.ignore_eos) body["ignore_eos"] = true;
    if (!target_.model.empty()) body["model"] = target_.model;
    http::request<http::string_body> request(http::verb::post, target_.path, 11);
    request.set(http::field::host, HostHeader(target_));
    request.set(http::field::content_type, "application/json");
    request.set(http::field::connection, "close");
    if (!target_.api_key.empty()) {
      request.set(http::field::authorization, "Bearer " + target_.api_key);
    }
    request.body() = json::serialize(body);
    request.prepare_payload();
    return request;
  }

  const ServingTarget& target_;
  const std::function<void(size_t)>& on_progress_;
  asio::io_context io_{1};
  Gate gate_;
  tcp::resolver::results_type endpoints_;
  Clock::time_point start_;
  LoadRun run_;
};

// A name or an IPv4 address: what a resolver takes, and nothing that has a meaning in a URL.
bool IsHostName(std::string_view host) {
  const auto is_of_names = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_';
  };
  return !host.empty() && std::ranges::all_of(host, is_of_names);
}

// An address, and perhaps the zone in which it is one: fe80::1%eth0.
bool IsIpv6Address(std::string_view host) {
  const size_t percent = std::min(host.find('%'), host.size());
  error_code error;
  asio::ip::make_address_v6(std::string(host.substr(0, percent)), error);
  return !error && (percent == host.size() || IsHostName(host.substr(percent + 1)));
}

// The host without the escaping of a zone's percent sign that RFC 6874 asks for.
std::string UnescapeZone(std::string_view host) {
  constexpr std::string_view kEscape = "%25";
  const size_t zone = host.find(kEscape);
  if (zone == std::string_view::npos || zone + kEscape.size() == host.size()) {
    return std::string(host);
  }
  return std::string(host.substr(0, zone)) + "%" + std::string(host.substr(zone + kEscape.size()));
}

}  // namespace

Result<ServingTarget> ParseBaseUrl(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  if (!boost::algorithm::istarts_with(url, kScheme)) {
    return Status::InvalidArgument(
        fmt::format("--base-url is '{}', but must begin with {}", url, kScheme));
  }
  const std::string_view rest = std::string_view(url).substr(kScheme.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  const std::string_view path = rest.substr(slash);
  const std::string_view place = rest.substr(0, slash);
  // The colon of the port comes after the bracket that ends an IPv6 address.
  const size_t bracket = place.starts_with('[') ? place.find(']') : 0;
  const size_t colon = bracket == std::string_view::npos ? bracket : place.find(':', bracket);
  std::string_view host = place.substr(0, colon);
  const bool in_brackets = host.starts_with('[') && host.ends_with(']');
  if (in_brackets) host = host.substr(1, host.size() - 2);
  const std::string_view port = colon == std::string_view::npos ? "80" : place.substr(colon + 1);
  uint16_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  const bool is_port = error == std::errc() && end == port.data() + port.size() && number > 0;
  if (!(in_brackets ? IsIpv6Address(host) : IsHostName(host)) || !is_port ||
      !(path.empty() || path == "/" || path == "/v1" || path == "/v1/")) {
    return Status::InvalidArgument(fmt::format(
        "--base-url is '{}', but must be http://HOST:PORT, the port in [1, 65535], with /v1 at its "
        "end or without",
        url));
  }
  ServingTarget target;
  target.host = in_brackets ? UnescapeZone(host) : std::string(host);
  target.port = port;
  return target;
}

std::string HostHeader(const ServingTarget& target) {
  const bool is_ipv6 = target.host.find(':') != std::string::npos;
  const std::string address = target.host.substr(0, target.host.find('%'));  // no zone
  return (is_ipv6 ? "[" + address + "]" : address) + ":" + target.port;
}

Result<LoadRun> RunLoad(const std::vector<Conversation>& load, const ServingTarget& target,
                        const std::function<void(size_t num_ended)>& on_progress) {
  return LoadRunner(target, on_progress).Run(load);
}

}  // namespace octavo::bench
