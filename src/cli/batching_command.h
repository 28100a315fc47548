#pragma once

// Purpose:    `octavo bench batching`: what continuous batching, blocks and shared prefixes are
//             worth, each against its baseline in the same run.
// Ownership:  holds its options.
// Threading:  one thread.
// Invariants: both sides of a comparison get the same requests and the same memory.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/batching.h"
#include "cli/engine_flags.h"
#include "cli/profile_flag.h"
#include "octavo/status.h"

namespace octavo::cli {

class BatchingBench {
 public:
  explicit BatchingBench(CLI::App& app);
  Status Run();

 private:
  struct Row {
    std::string comparison;  // "continuous, 16 requests"
    std::string side;        // "static"
    bench::BatchingResult result;
  };

  Status RunParts(const EngineOptions& options);
  Status Probe(const EngineOptions& options);
  Status Compare(const std::string& comparison, const bench::Workload& workload,
                 const std::string& name, const EngineOptions& options,
                 const std::string& baseline_name, const EngineOptions& baseline);
  Status CompareBatching(const EngineOptions& options);
  Status ComparePaging(const EngineOptions& options);
  Status ComparePrefixes(const EngineOptions& options);
  Status MeasureMemory(const EngineOptions& options);
  Result<bench::BatchingResult> RunOne(const EngineOptions& options,
                                       const bench::Workload& workload);
  void Show(const Row& row) const;
  void Note(const std::string& text) const;

  std::vector<Row> rows_;
  int64_t kv_bytes_per_token_ = 0;
  bool json_ = false;
  EngineFlags engine_flags_;
  ProfileFlag profile_;
};

}  // namespace octavo::cli
