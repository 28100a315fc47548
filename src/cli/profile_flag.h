#pragma once

// Purpose:    --profile [FILE]: a command's engines record where their steps' time goes; at the end
//             a table on stderr, and a file.
// Ownership:  owns the Profiler; engines borrow it.
// Threading:  one call at a time; NoteEngine from any thread before Finish.
// Invariants: a file that cannot be written is refused before anything is computed.

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "cli/engine_flags.h"
#include "octavo/engine.h"
#include "octavo/profiler.h"
#include "octavo/status.h"

namespace octavo::cli {

class ProfileFlag {
 public:
  void AddTo(CLI::App& app);

  // Whether the file can be written; engines that `flags` make from now on record.
  Status Start(EngineFlags& flags);
  // One of the engines, for the picture's subtitle.
  void NoteEngine(const ModelInfo& info);
  // The table and the file. `ended` is how `command` has ended: it is what is returned, unless the
  // file cannot be written. REQUIRES: the engines are gone.
  Status Finish(Status ended, std::string_view command);

 private:
  bool asked_ = false;
  std::string file_;    // may be empty
  std::string engine_;  // model, threads and kernels
  std::optional<Profiler> profiler_;
};

}  // namespace octavo::cli
