#pragma once

// Purpose:    `octavo bench throughput`: equal requests submitted at once, in an exact shape, for
//             comparing engines; `octavo bench batching` compares octavo with itself.
// Ownership:  holds its options.
// Threading:  one thread.
// Invariants: every run computes the same tokens, and finds an empty prefix cache.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/batching.h"
#include "cli/engine_flags.h"
#include "octavo/status.h"

namespace octavo::cli {

class ThroughputBench {
 public:
  explicit ThroughputBench(CLI::App& app);
  Status Run();

 private:
  Status Check() const;
  std::string ToJson(const ModelInfo& info, const std::vector<bench::BatchingResult>& runs) const;
  std::string ToText(const ModelInfo& info, const std::vector<bench::BatchingResult>& runs) const;

  int32_t num_prompts_ = 16;
  int32_t input_len_ = 510;  // tokens of its own, of each prompt
  int32_t output_len_ = 64;
  int32_t prefix_len_ = 0;  // tokens that all prompts begin with
  int32_t repeat_ = 3;
  bool json_ = false;
  EngineFlags engine_flags_;
};

}  // namespace octavo::cli
