#include "cli/command_line.h"

#include <CLI/CLI.hpp>

namespace octavo::cli {

int RunCommandLine(int argc, char** argv) {
  CLI::App app("Runs large language models on this machine, from GGUF files", "octavo");
  app.set_version_flag("--version", "octavo " OCTAVO_VERSION);
  CLI11_PARSE(app, argc, argv);
  return 0;
}

}  // namespace octavo::cli
