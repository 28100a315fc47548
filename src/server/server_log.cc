#include "server/server_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <string>
#include <utility>

#include "server/json_writer.h"
#include "text/utf8.h"

namespace octavo::server {
namespace {

// What clients send, as one word of a line.
std::string Plain(std::string_view text) {
  constexpr size_t kMaxBytes = 256;
  std::string plain = text::ReplaceInvalidUtf8(text.substr(0, kMaxBytes));
  for (char& c : plain) {
    if (static_cast<unsigned char>(c) < 0x20 || c == '"' || c == 0x7f) c = '?';
  }
  return plain;
}

std::string Now() {
  const auto now = std::chrono::system_clock::now();
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(now)), milliseconds);
}

}  // namespace

ServerLog::ServerLog(spdlog::sink_ptr sink, const ReportOptions& options)
    : logger_(std::make_unique<spdlog::logger>("octavo", std::move(sink))),
      is_json_(options.log_json),
      logs_requests_(options.log_requests) {
  logger_->set_pattern("%v");
  logger_->flush_on(spdlog::level::info);
}

void ServerLog::Write(spdlog::level::level_enum level, std::string_view message) {
  const spdlog::string_view_t name = spdlog::level::to_string_view(level);
  const std::string_view level_name(name.data(), name.size());
  if (!is_json_) {
    logger_->log(level, "{} {} {}", Now(), level_name, message);
    return;
  }
  JsonWriter json;
  json.BeginObject()
      .Member("time", Now())
      .Member("level", level_name)
      .Member("message", message)
      .EndObject();
  logger_->log(level, "{}", json.text());
}

void ServerLog::Request(const Exchange& exchange, double seconds) {
  if (!logs_requests_) return;
  const HttpRequest& request = exchange.request();
  const Exchange::Account& account = exchange.account();
  if (!is_json_) {
    logger_->info("{} info {} \"{} {}\" {} {:.1f}ms id={} prompt={} cached={} output={}", Now(),
                  request.remote, Plain(request.method_name), Plain(request.path), account.status,
                  seconds * 1e3, request.id, account.num_prompt_tokens, account.num_cached_tokens,
                  account.num_generation_tokens);
    return;
  }
  JsonWriter json;
  json.BeginObject()
      .Member("time", Now())
      .Member("level", "info")
      .Member("message", "request")
      .Member("remote", request.remote)
      .Member("method", Plain(request.method_name))
      .Member("path", Plain(request.path))
      .Member("status", int64_t{account.status});
  json.Key("duration_ms").Double(seconds * 1e3);
  json.Member("request_id", request.id)
      .Member("prompt_tokens", account.num_prompt_tokens)
      .Member("cached_tokens", account.num_cached_tokens)
      .Member("output_tokens", account.num_generation_tokens);
  if (const std::string_view trace = request.Header("traceparent"); !trace.empty()) {
    json.Member("traceparent", Plain(trace));
  }
  json.EndObject();
  logger_->info("{}", json.text());
}

}  // namespace octavo::server
