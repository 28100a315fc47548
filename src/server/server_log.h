#pragma once

// Purpose:    the server's log: a line per request, and what happens to the server itself.
// Ownership:  owns its sink.
// Threading:  any thread.
// Invariants: one line each, text or JSON; never a key, a prompt or an answer. What comes from
//             clients cannot begin a line or end a JSON string.

#include <spdlog/logger.h>

#include <memory>
#include <string_view>

#include "server/exchange.h"
#include "server/server_options.h"

namespace octavo::server {

class ServerLog {
 public:
  // To `sink`; the command line gives one that writes to stderr.
  ServerLog(spdlog::sink_ptr sink, const ReportOptions& options);

  void Info(std::string_view message) { Write(spdlog::level::info, message); }
  void Warn(std::string_view message) { Write(spdlog::level::warn, message); }
  // After the answer, which took `seconds`.
  void Request(const Exchange& exchange, double seconds);

 private:
  void Write(spdlog::level::level_enum level, std::string_view message);

  std::unique_ptr<spdlog::logger> logger_;
  bool is_json_;
  bool logs_requests_;
};

}  // namespace octavo::server
