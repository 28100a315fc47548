#pragma once

// Purpose:    the options that describe an engine (model, cache, compute, memory), and the loading
//             of it, with progress on a terminal.
// Ownership:  the CLI::App keeps references to this object, which must outlive the parsing.
// Threading:  the main thread.
// Invariants: ranges are checked by Engine::Create, which names the option's field.

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "octavo/engine.h"

namespace octavo::cli {

class EngineFlags {
 public:
  void AddTo(CLI::App& app);

  // What was asked for, with the model's path found; for a command that makes engines of its own.
  Result<EngineOptions> Options() const;

  // Finds the model (-m, OCTAVO_MODEL, the fetched default) and loads it.
  Result<std::unique_ptr<Engine>> Load();

  // Engines made from now on record into `profiler`, which must outlive them.
  void RecordInto(Profiler* profiler) { options_.profiler = profiler; }

  // One line on stderr if memory, not --max-model-len, keeps the context shorter than the model's.
  // `program` begins the line: "octavo run".
  void NoteShortContext(std::string_view program, const Engine& engine) const;

  int32_t block_size() const { return options_.cache.block_size; }  // tokens
  bool has_chat_template() const { return !chat_template_file_.empty(); }

 private:
  void AddHowOptions(CLI::App& app);
  void AddWhatOptions(CLI::App& app);
  void AddSharingOptions(CLI::App& app);

  EngineOptions options_;
  std::string chat_template_file_;
};

// -m FILE, the one way in which every command names a model.
CLI::Option* AddModelOption(CLI::App& app, std::string& path);

// `given`, or else OCTAVO_MODEL, or else the default model if scripts/fetch-model has brought it.
Result<std::string> FindModel(const std::string& given);

}  // namespace octavo::cli
