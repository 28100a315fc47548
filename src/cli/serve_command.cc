#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>
#include <utility>

#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/profile_flag.h"
#include "cli/server_flags.h"
#include "cli/streams.h"
#include "server/server.h"

namespace octavo::cli {
namespace {

constexpr char kServeExamples[] =
    R"(Serves the model over HTTP with OpenAI's API: /v1/chat/completions, /v1/completions and
/v1/models, and /health, /metrics, /tokenize and others (docs/guides/serving.md). The port answers
at once; /health is 503 until the model is loaded, and again from SIGTERM on, while running requests
are finished.

Examples:
  octavo serve                                    the default model on 127.0.0.1:8000
  octavo serve -m model.gguf --host 0.0.0.0 --api-key-file keys.txt
  curl http://127.0.0.1:8000/v1/chat/completions -H 'Content-Type: application/json' \
       -d '{"messages": [{"role": "user", "content": "Hello!"}]}'
)";

class ServeCommand : public Command {
 public:
  explicit ServeCommand(CLI::App& app) {
    server_flags_.AddTo(app);
    profile_.AddTo(app);
    engine_flags_.AddTo(app);
    app.footer(kServeExamples);
  }

  Status Run() override {
    const Result<server::ServerOptions> options = server_flags_.Options();
    if (!options.ok()) return options.status();
    if (Status status = profile_.Start(engine_flags_); !status.ok()) return status;
    const Result<EngineOptions> engine_options = engine_flags_.Options();
    if (!engine_options.ok()) return engine_options.status();
    server::ServerLog log(std::make_shared<spdlog::sinks::stderr_sink_mt>(), options->reports);
    Result<std::unique_ptr<server::Server>> server =
        server::Server::Create(*options, OCTAVO_VERSION, log);
    if (!server.ok()) return server.status();
    log.Info(fmt::format("listening on {}:{}; loading {}", options->access.host, (*server)->port(),
                         engine_options->model.path));
    const Status ended = Serve(**server, *engine_options);
    server->reset();
    return profile_.Finish(ended, "octavo serve");
  }

 private:
  // The port answers while the model is loaded.
  Status Serve(server::Server& server, const EngineOptions& engine_options) {
    Status load_status;
    std::atomic<bool> is_loaded = false;
    std::thread loader([&] {
      Result<std::unique_ptr<Engine>> engine = Engine::Create(engine_options);
      load_status = engine.status();
      is_loaded = true;
      if (engine.ok()) {
        profile_.NoteEngine((*engine)->model_info());
        server.SetEngine(*std::move(engine));
      } else {
        server.BeginDrain();
      }
    });
    server.Run();
    // Asked to stop during a long load: nothing waits for its end.
    if (!is_loaded) std::_Exit(EXIT_SUCCESS);
    loader.join();
    return load_status;
  }

  ServerFlags server_flags_;
  EngineFlags engine_flags_;
  ProfileFlag profile_;
};

}  // namespace

std::unique_ptr<Command> AddServeCommand(CLI::App& app) {
  return std::make_unique<ServeCommand>(app);
}

}  // namespace octavo::cli
