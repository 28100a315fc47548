#pragma once

// Purpose:    `octavo bench startup`: how long a fresh process takes until it can serve, by phase,
//             and its peak memory against what it should be.
// Ownership:  holds its options.
// Threading:  one thread.
// Invariants: each start is a process of its own: this program again, with the same arguments and
//             the hidden --begun-at-ns, which makes it print one sample.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/startup.h"
#include "cli/engine_flags.h"
#include "octavo/status.h"

namespace octavo::cli {

class StartupBench {
 public:
  explicit StartupBench(CLI::App& app);
  Status Run();

 private:
  static Status Probe(const EngineOptions& options);
  Status RunAsSample(const EngineOptions& options) const;
  Result<bench::StartupSample> RunOnce() const;
  std::string ToText(const bench::StartupSample& cold, const bench::StartupSample& warm) const;

  int32_t repeat_ = 5;
  bool json_ = false;
  std::optional<int64_t> begun_at_ns_;  // this is a sample's process
  EngineFlags engine_flags_;
};

}  // namespace octavo::cli
