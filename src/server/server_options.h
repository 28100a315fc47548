#pragma once

// Purpose:    what `octavo serve` can be told: where it listens, who may call it, and its limits.
// Ownership:  plain values.
// Threading:  plain data.
// Invariants: checked by Server::Create, which names the first field that is out of its range.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace octavo::server {

// Where the server listens and whom it serves.
struct AccessOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8000;  // 0 = any free one
  // Empty = everybody may call. Requests need `Authorization: Bearer KEY` otherwise.
  std::vector<std::string> api_keys;
  // For what concerns all clients: /reset_prefix_cache, /check_integrity, /server_info. Empty =
  // those are closed, but to clients of the machine itself if there are no api_keys either.
  std::string admin_key;
  bool salt_by_key = true;                   // each API key has a cache of its own
  std::vector<std::string> allowed_origins;  // CORS; "*" = all; empty = none
  std::string tls_certificate_file;          // PEM chain; with tls_key_file: HTTPS
  std::string tls_key_file;
};

// What one client may cost the others.
struct LimitOptions {
  uint32_t max_connections = 0;  // 0 = what the limit on open files allows, at most 16,384
  uint32_t max_concurrent_requests = 1024;  // generations at once, queued ones too; more get 429
  uint32_t max_header_bytes = 32 << 10;
  uint64_t max_body_bytes = 32 << 20;
  uint64_t max_buffered_body_bytes = uint64_t{1} << 30;  // of all clients, until they are read
  uint32_t max_json_depth = 64;
  uint32_t max_prompts = 256;  // of one request to /v1/completions
  std::chrono::milliseconds header_timeout{10'000};
  std::chrono::milliseconds body_timeout{60'000};
  std::chrono::milliseconds idle_timeout{75'000};   // between two requests of a connection
  std::chrono::milliseconds write_timeout{30'000};  // for one piece of an answer to be taken
  std::chrono::milliseconds request_timeout{3'600'000};
  std::chrono::milliseconds drain_timeout{60'000};  // after SIGTERM, until requests are cut off
};

// What the server says about itself and its requests.
struct ReportOptions {
  std::vector<std::string>
      served_model_names;               // the first one stands in answers; empty = the model's
  bool log_requests = true;             // an access log line per request
  bool log_json = false;                // lines of JSON instead of text
  bool enable_request_metrics = false;  // `metrics` in every answer
  bool legacy_metric_names = false;     // vLLM's former names beside the present ones
  bool enable_block_metrics = false;    // the histograms of blocks' lives
};

struct ServerOptions {
  AccessOptions access;
  LimitOptions limits;
  ReportOptions reports;
  uint32_t num_workers = 2;  // threads that parse, tokenize and render
};

}  // namespace octavo::server
