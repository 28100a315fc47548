#pragma once

// Purpose:    what many requests at once come to: speed and time to first token of a workload, and
//             how well the blocks are used, as `octavo bench batching` prints.
// Ownership:  makes its own engines.
// Threading:  one thread drives the engine, and looks at its statistics meanwhile.
// Invariants: a workload is a function of its fields: every engine gets the same prompts and the
//             same output lengths. End-of-text is ignored.

#include <cstdint>
#include <string>
#include <vector>

#include "octavo/engine.h"

namespace octavo::bench {

// Requests whose prompt and output lengths run evenly over two ranges, in mixed order.
struct Workload {
  int32_t num_requests = 16;
  int32_t shortest_input = 32, longest_input = 256;  // tokens of their own
  int32_t shortest_output = 16, longest_output = 128;
  int32_t shared_prefix = 0;  // tokens that all prompts begin with
  int32_t num_completions = 1;
  int32_t beam_width = 0;  // > 0: beam search
};

struct Percentiles {
  double p50 = 0, p90 = 0, p99 = 0;
};

// The moments at which a sequence's tokens came, in seconds from one start for all; in order.
using TokenTimes = std::vector<double>;

// Tokens per second of all sequences together while all of them decode: the tokens after the
// moment when the last one has its first, up to the moment when the first one ends.
double DecodeTokensPerSecond(const std::vector<TokenTimes>& sequences);

struct BatchingResult {
  double duration_s = 0;
  double output_tokens_per_s = 0;
  double total_tokens_per_s = 0;  // prompts and outputs
  // First completions together, while all of them decode: from the moment when the last one has
  // its first token to the end of the first one. 0 if there is no such time.
  double decode_tokens_per_s = 0;
  Percentiles ttft_s;
  int64_t num_cached_tokens = 0;
  int64_t num_preemptions = 0;
  int64_t max_running = 0;  // sequences at once
  // Means over the run, weighted by time and blocks, both 0..1.
  double block_use = 0;  // of the blocks' slots, those that hold a token; without sharing
  double sharing = 0;    // of the blocks that the tables name, those that sharing saved
};

// All requests are submitted at once. Errors: a workload that the engine refuses.
Result<BatchingResult> RunWorkload(Engine& engine, const Workload& workload);

}  // namespace octavo::bench
