#pragma once

// Purpose:    what a caller submits: a prompt, how to go on from it, and how it shares the engine.
// Ownership:  plain values; the engine takes them over.
// Threading:  plain data.
// Invariants: none until Engine::Submit has accepted it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "octavo/sampling_params.h"
#include "octavo/types.h"

namespace octavo {

using RequestId = uint64_t;

// Deterministic search for the likeliest continuations instead of sampling; names and meaning are
// those of vLLM's BeamSearchParams. Of the request's SamplingParams only detokenize,
// skip_special_tokens and logprobs (absent or 0: only the chosen tokens are reported) then matter.
struct BeamSearchParams {
  int32_t beam_width = 4;   // [1, 64]; that many completions are returned, best first
  int32_t max_tokens = 16;  // >= 1
  bool ignore_eos = false;
  // The score is cumulative log-probability / length ^ length_penalty, the length that of prompt
  // and output; [-10, 10].
  float length_penalty = 1.0f;
};

struct Request {
  std::vector<TokenId> prompt_token_ids;  // at least 1, fewer than max_model_len
  SamplingParams params;
  std::optional<BeamSearchParams> beam_search;

  int32_t priority = 0;  // lower = earlier; others than 0 need SchedulingPolicy::kPriority
  // Requests share cached prefixes only with those of the same salt.
  std::string cache_salt;
  // Keeps the prompt's blocks cached for this long after the prompt is computed, in ms, within the
  // cap on pins; absent: no pin.
  std::optional<int64_t> pin_ttl_ms;
  bool explain = false;  // fill RequestOutput::explanation
};

}  // namespace octavo
