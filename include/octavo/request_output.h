#pragma once

// Purpose:    what a request produced: the final object, and the pieces that a stream delivers on
//             the way.
// Ownership:  plain values; a RequestDelta's views die with the callback that received it.
// Threading:  plain data.
// Invariants: the concatenation of all deltas' text equals the final text, and every delta is valid
//             UTF-8 if the output is; logprobs, where asked for, have one entry per token id
//             (fewer for a prompt that an abort or kError cut short).

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "octavo/kvcache/explanation.h"
#include "octavo/types.h"

namespace octavo {

enum class FinishReason {
  kNone,    // still running
  kStop,    // end-of-text, a stop string or a stop token
  kLength,  // max_tokens or the context is full
  kAbort,   // the caller stopped it
  kError,   // the model produced a non-finite logit
};

// "stop", "length", "abort", "error"; "" for kNone.
std::string_view FinishReasonName(FinishReason reason);

struct TokenLogprob {
  TokenId token_id = kNoToken;
  // Natural logarithm of the raw distribution: before temperature, penalties and bias.
  float logprob = 0.0f;
  int32_t rank = 0;  // 1 = the most likely
};

// The chosen token first, then the top N in falling order (of equal ones the lowest id first).
struct TokenLogprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;
};

// What ended a completion, when its finish reason is kStop: a stop string, a stop token id, or
// nothing for end-of-text.
using StopReason = std::variant<std::monostate, std::string, TokenId>;

struct CompletionOutput {
  int32_t index = 0;
  std::string text;
  std::vector<TokenId> token_ids;
  std::vector<TokenLogprobs> logprobs;  // empty unless SamplingParams::logprobs
  FinishReason finish_reason = FinishReason::kNone;
  // Sum of the chosen tokens' log-probabilities, if they were asked for (and for a beam search).
  double cumulative_logprob = 0.0;
  StopReason stop_reason;
};

struct RequestTiming {
  double queued_s = 0;          // from submission to the start of its first step
  double prefill_s = 0;         // from the start of its first step to the prompt's last logits
  double ttft_s = 0;            // from submission to the first token
  double decode_s = 0;          // from the first token to the end of the request
  std::vector<double> token_s;  // from submission to each token of the first completion
};

struct RequestOutput {
  std::vector<TokenId> prompt_token_ids;
  // One entry per prompt token after the first (the first has no prediction); empty unless
  // SamplingParams::prompt_logprobs.
  std::vector<TokenLogprobs> prompt_logprobs;
  std::vector<CompletionOutput> outputs;
  int32_t num_cached_tokens = 0;  // prompt tokens whose K and V were in the cache already
  int32_t num_preemptions = 0;    // how often its sequences lost their blocks
  uint64_t seed = 0;              // the seed that was used
  RequestTiming timing;
  // Per block of the prompt, what the cache knew when the request was admitted; empty unless
  // Request::explain.
  std::vector<kvcache::BlockExplanation> explanation;
};

// One piece of a stream. `text` never splits a UTF-8 character and, unless
// include_stop_str_in_output is set, never holds the beginning of a stop string.
struct RequestDelta {
  int32_t index = 0;
  std::string_view text;
  std::span<const TokenId> token_ids;
  std::span<const TokenLogprobs> logprobs;  // one per token, if SamplingParams::logprobs
  FinishReason finish_reason = FinishReason::kNone;
  StopReason stop_reason;
};

}  // namespace octavo
