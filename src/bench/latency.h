#pragma once

// Purpose:    one stream's speed: prefill and decode tokens per second at a given prompt length,
//             and how soon the first token comes if part of the prompt is cached, as `octavo bench
//             latency` prints.
// Ownership:  borrows the engine.
// Threading:  as the engine.
// Invariants: prompts are made of ordinary token ids from a fixed generator, and end-of-text is
//             ignored, so that every run does the same work.

#include <cstdint>
#include <vector>

#include "octavo/engine.h"

namespace octavo::bench {

struct LatencyOptions {
  int32_t input_len = 512;   // prompt tokens
  int32_t output_len = 128;  // output tokens, >= 2
  int32_t repeat = 3;
  int32_t cached_len = 0;  // of a further prompt of each run, the tokens that the first has cached;
                           // 0: no further prompt
};

struct LatencyRun {
  double prefill_tokens_per_s = 0;
  double ttft_s = 0;
  double decode_tokens_per_s = 0;  // of the tokens after the first
  double cached_ttft_s = 0;        // of the further prompt
};

struct LatencyResult {
  std::vector<LatencyRun> runs;  // [repeat]
  LatencyRun median;
};

// `length` ids that are not special in any usual vocabulary: a fixed sequence without long
// repetitions; another one for each seed.
std::vector<TokenId> SyntheticPrompt(const ModelInfo& info, int32_t length, uint64_t seed = 1);

Result<LatencyResult> MeasureLatency(Engine& engine, const LatencyOptions& options);

}  // namespace octavo::bench
