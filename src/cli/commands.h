#pragma once

// Purpose:    the subcommands of `octavo`. Each Add* call puts one onto the command line and
//             returns the object that will run it.
// Ownership:  the caller keeps the Command as long as the CLI::App.
// Threading:  the main thread.
// Invariants: Run is called at most once, after the command line was parsed without an error.

#include <CLI/CLI.hpp>
#include <memory>

#include "octavo/status.h"

namespace octavo::cli {

class Command {
 public:
  virtual ~Command() = default;

  // kInvalidArgument is a usage error (exit code 2); kCancelled means that Ctrl-C ended it (130);
  // anything else is a failure (exit code 1). An empty message is not printed.
  virtual Status Run() = 0;
};

std::unique_ptr<Command> AddRunCommand(CLI::App& app);
std::unique_ptr<Command> AddChatCommand(CLI::App& app);
std::unique_ptr<Command> AddServeCommand(CLI::App& app);
std::unique_ptr<Command> AddInspectCommand(CLI::App& app);
std::unique_ptr<Command> AddRenderCommand(CLI::App& app);
std::unique_ptr<Command> AddTokenizeCommand(CLI::App& app);
std::unique_ptr<Command> AddExplainCommand(CLI::App& app);
std::unique_ptr<Command> AddBenchCommand(CLI::App& app);
std::unique_ptr<Command> AddReplayCommand(CLI::App& app);

}  // namespace octavo::cli
