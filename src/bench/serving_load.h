#pragma once

// Purpose:    what a load generator sends to a server, and when: conversations of one or more
//             turns, with arrivals drawn like those of vLLM's `bench serve`.
// Ownership:  plain values.
// Threading:  any thread.
// Invariants: the same options and seed give the same load. Prompts that share nothing by intent
//             share no first token but by chance.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/trace.h"
#include "octavo/status.h"
#include "octavo/types.h"

namespace octavo::bench {

enum class Dataset {
  kRandom,        // lengths around input_len and output_len, nothing shared
  kSharedPrefix,  // the same, behind prefix_len tokens that all share
  kMultiTurn,     // conversations whose every turn repeats the turns before
  kTrace,         // arrivals, lengths and shared content of a trace
};

struct LoadOptions {
  Dataset dataset = Dataset::kRandom;
  int32_t num_prompts = 100;  // requests in all; [1, 1,000,000]
  int32_t input_len = 256;    // tokens of a prompt, or of what a turn adds; >= 1
  int32_t output_len = 64;    // >= 1
  double range_ratio = 0.0;   // lengths are uniform in len x [1 - r, 1 + r]; [0, 1)
  int32_t prefix_len = 512;   // kSharedPrefix
  int32_t num_turns = 4;      // kMultiTurn
  double request_rate = 0.0;  // conversations a second; 0 = all at once
  // Shape of the gamma distribution of the time between arrivals: 1 = Poisson, less = bursts.
  double burstiness = 1.0;
  int32_t max_model_len = 0;    // 0 = any; trace requests are cut to fit
  int32_t vocab_size = 30'000;  // token ids are drawn from [1000, vocab_size)
  uint64_t seed = 0;
};

struct Turn {
  std::vector<TokenId> prompt;
  int32_t num_output_tokens = 1;
};

struct Conversation {
  double arrival_s = 0.0;   // of the first turn, from the start of the run
  std::vector<Turn> turns;  // each begins when the one before has ended
};

// `trace` is needed for kTrace. An error names the option at fault.
Result<std::vector<Conversation>> MakeLoad(const LoadOptions& options, const Trace* trace);

}  // namespace octavo::bench
