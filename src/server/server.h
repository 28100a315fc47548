#pragma once

// Purpose:    the HTTP server: listens, serves connections, drains, ends.
// Ownership:  owns everything but the log; the engine is handed to it when it is loaded.
// Threading:  Run blocks its thread, which becomes the I/O thread; SetEngine, BeginDrain and
//             port may be called from any thread.
// Invariants: the port answers from Create on: 503 until SetEngine. After BeginDrain what was
//             accepted is finished, within the drain timeout, and Run returns.

#include <memory>
#include <string>

#include "octavo/engine.h"
#include "octavo/status.h"
#include "server/server_log.h"
#include "server/server_options.h"

namespace octavo::server {

class Server {
 public:
  // Binds the port. Errors name the option at fault.
  static Result<std::unique_ptr<Server>> Create(const ServerOptions& options, std::string version,
                                                ServerLog& log);
  virtual ~Server() = default;

  // Serves until a drain has ended. Leaves SIGINT and SIGTERM to it: the first begins the drain,
  // the second cuts off what is left.
  virtual void Run() = 0;

  virtual void SetEngine(std::unique_ptr<Engine> engine) = 0;
  virtual void BeginDrain() = 0;
  virtual uint16_t port() const = 0;
};

}  // namespace octavo::server
