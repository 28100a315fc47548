#pragma once

// Purpose:    how long an engine takes from the start of its process until it can take a request,
//             and how much memory it holds at most, as `octavo bench startup` prints.
// Ownership:  MeasureStartup makes an engine of its own.
// Threading:  one thread.
// Invariants: MeasureStartup measures its own process, which must have made no engine before, since
//             a peak never falls.

#include <cstdint>
#include <span>

#include "octavo/engine.h"

namespace octavo::bench {

struct StartupSample {
  double ready_s = 0;    // from the start of the process until the engine was made
  double program_s = 0;  // of these, before the engine: linking, the command line
  LoadTiming load;
  double first_token_s = 0;       // then, the first token of a prompt of num_prompt_tokens
  int64_t peak_ready_bytes = 0;   // resident, until the engine was made
  int64_t peak_prompt_bytes = 0;  // and until the prompt was computed
  int64_t file_bytes = 0;         // of the model
  int64_t kv_bytes = 0;           // of the blocks that the prompt fills
  int64_t activation_bytes = 0;   // with the logits
  int32_t num_prompt_tokens = 0;
};

// What a process may hold at most: the file and 15 % of it, 48 MiB, and what it computes with.
struct StartupAim {
  static constexpr int64_t kProgramBytes = 48 << 20;

  static int64_t FileShareBytes(const StartupSample& sample) {
    return sample.file_bytes * 15 / 100;
  }
  static int64_t ReadyBytes(const StartupSample& sample) {
    return sample.file_bytes + FileShareBytes(sample) + kProgramBytes + sample.activation_bytes;
  }
  static int64_t PromptBytes(const StartupSample& sample) {
    return ReadyBytes(sample) + sample.kv_bytes;
  }
  static bool Holds(const StartupSample& sample) {
    return sample.peak_ready_bytes <= ReadyBytes(sample) &&
           sample.peak_prompt_bytes <= PromptBytes(sample);
  }
};

// `begun_ns`: when the process was started, on the steady clock. Errors: those of Engine::Create, a
// begin that lies in the future, a system that does not tell the memory of a process.
Result<StartupSample> MeasureStartup(const EngineOptions& options, int64_t begun_ns);

// Each time's median, and the largest peaks. REQUIRES: samples is not empty.
StartupSample MedianOf(std::span<const StartupSample> samples);

}  // namespace octavo::bench
