#include "cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "cli/streams.h"
#include "cli/usage_errors.h"

namespace octavo::cli {
namespace {

constexpr int kExitSuccess = 0;
constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;
constexpr int kExitInterrupted = 130;  // as shells count a program that SIGINT ended

constexpr char kCommandLineExamples[] = R"(Examples:
  scripts/fetch-model                                   fetch the default model once
  octavo chat                                           talk to it
  octavo run -p "Once upon a time" --max-tokens 60      let it continue a text
  octavo run --help                                     every option of one command
)";

struct Subcommand {
  CLI::App* app;
  std::unique_ptr<Command> command;
};

using AddCommand = std::unique_ptr<Command> (*)(CLI::App&);

Subcommand Add(CLI::App& app, const std::string& name, const std::string& help, AddCommand add) {
  CLI::App* subcommand = app.add_subcommand(name, help);
  return {subcommand, add(*subcommand)};
}

// Always one line, whatever the message holds.
void PrintError(const std::string& program, std::string_view message) {
  WriteStderr(fmt::format("{}: {}\n", program, Printable(message)));
}

int ExitCode(const CLI::App& app, const Status& status) {
  if (status.ok()) return kExitSuccess;
  if (!status.message().empty()) {
    PrintError(ProgramName(app), WithOptionName(DeepestCommand(app), status.message()));
  }
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
      return kExitUsage;
    case StatusCode::kCancelled:
      return kExitInterrupted;
    default:
      return kExitFailure;
  }
}

// True, after an error message, if the first argument is a word that is not a subcommand.
bool RefuseUnknownSubcommand(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-' || argv[1][0] == '\0') return false;
  std::string names;
  for (const CLI::App* subcommand : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (subcommand->get_name() == argv[1]) return false;
    names += (names.empty() ? "" : ", ") + subcommand->get_name();
  }
  PrintError("octavo", fmt::format("'{}' is not a command; there are {}", argv[1], names));
  return true;
}

int Dispatch(int argc, char** argv) {
  CLI::App app("Octavo runs large language models on this machine, from GGUF files.", "octavo");
  app.set_version_flag("--version", "octavo " OCTAVO_VERSION);
  app.footer(kCommandLineExamples);
  app.require_subcommand(1);
  app.get_formatter()->column_width(38);
  std::vector<Subcommand> subcommands;
  subcommands.push_back(Add(app, "run", "Answer one prompt, streamed", AddRunCommand));
  subcommands.push_back(Add(app, "chat", "Talk with the model, turn by turn", AddChatCommand));
  subcommands.push_back(Add(app, "serve", "Serve the model over HTTP", AddServeCommand));
  subcommands.push_back(
      Add(app, "inspect", "Show a model file: metadata, tensors, memory", AddInspectCommand));
  subcommands.push_back(Add(app, "render", "Show the prompt of a conversation", AddRenderCommand));
  subcommands.push_back(Add(app, "tokenize", "Turn text into token ids", AddTokenizeCommand));
  subcommands.push_back(Add(app, "explain", "Say what the KV cache holds of a prompt, and why not",
                            AddExplainCommand));
  subcommands.push_back(
      Add(app, "bench", "Measure speed, and what the cache is worth", AddBenchCommand));
  subcommands.push_back(Add(
      app, "replay", "Replay a request trace: hit rate by pool size and policy", AddReplayCommand));

  if (RefuseUnknownSubcommand(app, argc, argv)) return kExitUsage;

  const auto parsed = [](const Subcommand& subcommand) { return subcommand.app->parsed(); };
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help or --version
    std::string text = dynamic_cast<const CLI::CallForVersion*>(&request) != nullptr
                           ? std::string(request.what()) + "\n"
                           : app.help();
    return ExitCode(app, WriteStdout(text));
  } catch (const CLI::FileError& error) {  // not the command line's fault
    PrintError(ProgramName(app), error.what());
    return kExitFailure;
  } catch (const CLI::ParseError& error) {
    const std::string program = ProgramName(app);
    PrintError(program, fmt::format("{} (see {} --help)", DescribeParseError(app, error), program));
    return kExitUsage;
  }
  const auto chosen = std::find_if(subcommands.begin(), subcommands.end(), parsed);
  return ExitCode(app, chosen->command->Run());
}

}  // namespace

int RunCommandLine(int argc, char** argv) {
  PrepareStandardStreams();
  try {
    return Dispatch(argc, argv);
  } catch (const std::bad_alloc&) {
    PrintError("octavo", "out of memory");
    return kExitFailure;
  }
}

}  // namespace octavo::cli
