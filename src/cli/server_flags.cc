#include "cli/server_flags.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <sstream>
#include <utility>

#include "base/environment.h"
#include "cli/option_values.h"
#include "cli/streams.h"

namespace octavo::cli {
namespace {

std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3));
}

Status CheckSeconds(std::string_view option, double seconds) {
  if (seconds > 0.0 && seconds <= 1e6) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("{} is {}, but must be above 0 and at most 1000000 seconds", option, seconds));
}

// A key per line, without the spaces around it; empty lines and those with a '#' first are skipped.
Status ReadKeys(const std::string& path, std::vector<std::string>* keys) {
  const Result<std::string> text = ReadFileOrStdin(path);
  if (!text.ok()) {
    return Status(text.status().code(), "--api-key-file: " + std::string(text.status().message()));
  }
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    constexpr const char* kSpace = " \t\r";
    const size_t begin = line.find_first_not_of(kSpace);
    if (begin == std::string::npos || line[begin] == '#') continue;
    keys->push_back(line.substr(begin, line.find_last_not_of(kSpace) + 1 - begin));
  }
  if (keys->empty()) {
    return Status::InvalidArgument(fmt::format("--api-key-file {}: holds no key", path));
  }
  return Status::Ok();
}

}  // namespace

void ServerFlags::AddTo(CLI::App& app) {
  AddAccess(app);
  AddLimits(app);
  AddReports(app);
}

void ServerFlags::AddAccess(CLI::App& app) {
  server::AccessOptions& access = options_.access;
  app.option_defaults()->group("Access (where it listens, and for whom)");
  app.add_option("--host", access.host, "Address to listen on (default 127.0.0.1: this machine)")
      ->type_name("ADDRESS");
  AddNumber(app, "--port", access.port,
            "Port; 0 = any free one, printed at the start (default 8000)");
  app.add_option("--api-key", access.api_keys,
                 "Key that clients must send as a bearer token; repeatable; also $OCTAVO_API_KEY")
      ->type_name("KEY")
      ->allow_extra_args(false);
  app.add_option("--api-key-file", api_key_file_, "File with one key per line")->type_name("FILE");
  app.add_option("--admin-api-key", access.admin_key,
                 "Key for /reset_prefix_cache, /check_integrity and /server_info; also "
                 "$OCTAVO_ADMIN_API_KEY")
      ->type_name("KEY");
  app.add_flag_callback(
      "--no-salt-by-key", [&access] { access.salt_by_key = false; },
      "Clients with different keys share cached prefixes");
  app.add_option("--allowed-origins", access.allowed_origins,
                 "Web origin that browsers may call from, or *; repeatable (default none)")
      ->type_name("ORIGIN")
      ->allow_extra_args(false);
  app.add_option("--ssl-certfile", access.tls_certificate_file,
                 "Certificate chain, PEM: serve HTTPS")
      ->type_name("FILE");
  app.add_option("--ssl-keyfile", access.tls_key_file, "Private key, PEM")->type_name("FILE");
}

void ServerFlags::AddLimits(CLI::App& app) {
  server::LimitOptions& limits = options_.limits;
  app.option_defaults()->group("Limits (what one client may cost the others)");
  AddNumber(app, "--max-concurrent-requests", limits.max_concurrent_requests,
            "Requests served at once, waiting ones too; more get 429 (default 1024)");
  AddNumber(app, "--max-connections", limits.max_connections,
            "Open connections (default: what the limit on open files allows)");
  AddNumber(app, "--max-body-bytes", limits.max_body_bytes, "Size of a request (default 32 MiB)");
  AddNumber(app, "--max-prompts", limits.max_prompts,
            "Prompts in one request to /v1/completions (default 256)");
  AddNumber(app, "--request-timeout", request_timeout_s_,
            "Seconds that a request may take (default 3600)");
  AddNumber(app, "--idle-timeout", idle_timeout_s_,
            "Seconds that a connection may be idle between requests (default 75)");
  AddNumber(app, "--write-timeout", write_timeout_s_,
            "Seconds within which a client must take a piece of its answer (default 30)");
  AddNumber(app, "--shutdown-timeout", drain_timeout_s_,
            "Seconds after SIGTERM within which requests may finish (default 60)");
}

void ServerFlags::AddReports(CLI::App& app) {
  server::ReportOptions& reports = options_.reports;
  app.option_defaults()->group("Reports");
  app.add_option("--served-model-name", reports.served_model_names,
                 "Name of the model in the API; repeatable, the first one stands in answers "
                 "(default: the model's own)")
      ->type_name("NAME")
      ->allow_extra_args(false);
  app.add_flag_callback(
      "--disable-log-requests", [&reports] { reports.log_requests = false; },
      "No line in the log for each request");
  app.add_flag("--log-json", reports.log_json, "Log lines are JSON objects");
  app.add_flag("--enable-per-request-metrics", reports.enable_request_metrics,
               "`metrics` in every answer, not only where include_metrics asks for it");
  app.add_flag("--legacy-metric-names", reports.legacy_metric_names,
               "vLLM's former metric names beside the present ones");
  app.add_flag("--kv-cache-metrics", reports.enable_block_metrics,
               "Histograms of how long blocks live and lie idle");
}

Result<server::ServerOptions> ServerFlags::Options() const {
  server::ServerOptions options = options_;
  if (!api_key_file_.empty()) {
    if (Status status = ReadKeys(api_key_file_, &options.access.api_keys); !status.ok()) {
      return status;
    }
  }
  if (const std::optional<std::string> key = base::ReadEnvironment("OCTAVO_API_KEY")) {
    options.access.api_keys.push_back(*key);
  }
  if (options.access.admin_key.empty()) {
    options.access.admin_key = base::ReadEnvironment("OCTAVO_ADMIN_API_KEY").value_or("");
  }
  for (const std::string& key : options.access.api_keys) {
    if (key.empty()) return Status::InvalidArgument("--api-key: the key is empty");
  }
  for (const std::string& name : options.reports.served_model_names) {
    if (name.empty()) return Status::InvalidArgument("--served-model-name: the name is empty");
  }
  const std::pair<const char*, double> times[] = {{"--request-timeout", request_timeout_s_},
                                                  {"--idle-timeout", idle_timeout_s_},
                                                  {"--write-timeout", write_timeout_s_},
                                                  {"--shutdown-timeout", drain_timeout_s_}};
  for (const auto& [option, seconds] : times) {
    if (Status status = CheckSeconds(option, seconds); !status.ok()) return status;
  }
  if (options.limits.max_concurrent_requests == 0) {
    return Status::InvalidArgument("--max-concurrent-requests is 0, but must be at least 1");
  }
  if (options.limits.max_body_bytes == 0 || options.limits.max_prompts == 0) {
    return Status::InvalidArgument("--max-body-bytes and --max-prompts must be at least 1");
  }
  options.limits.request_timeout = Milliseconds(request_timeout_s_);
  options.limits.idle_timeout = Milliseconds(idle_timeout_s_);
  options.limits.write_timeout = Milliseconds(write_timeout_s_);
  options.limits.drain_timeout = Milliseconds(drain_timeout_s_);
  return options;
}

}  // namespace octavo::cli
