#pragma once

// Purpose:    the options of `octavo serve` beside those of the engine.
// Ownership:  the CLI::App keeps references to this object, which must outlive the parsing.
// Threading:  the main thread.
// Invariants: a key never stands on the command line of another process: keys may come from files
//             and the environment.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "octavo/status.h"
#include "server/server_options.h"

namespace octavo::cli {

class ServerFlags {
 public:
  void AddTo(CLI::App& app);
  // Reads the key files and the environment.
  Result<server::ServerOptions> Options() const;

 private:
  void AddAccess(CLI::App& app);
  void AddLimits(CLI::App& app);
  void AddReports(CLI::App& app);

  server::ServerOptions options_;
  std::string api_key_file_;
  double drain_timeout_s_ = 60.0;
  double request_timeout_s_ = 3600.0;
  double idle_timeout_s_ = 75.0;
  double write_timeout_s_ = 30.0;
};

}  // namespace octavo::cli
