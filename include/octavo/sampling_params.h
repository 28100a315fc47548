#pragma once

// Purpose:    how the tokens of one request are chosen, and when it ends. Names and defaults are
//             those of vLLM's SamplingParams.
// Ownership:  a plain value; the engine copies what it needs.
// Threading:  plain data.
// Invariants: none until Validate() has returned OK; Validate reports the first field out of its
//             range by name, with its value and its limit.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "octavo/status.h"
#include "octavo/structured_outputs.h"
#include "octavo/types.h"

namespace octavo {

struct SamplingParams {
  int32_t n = 1;  // [1, 128]: completions of one prompt, each with draws of its own

  // How a token is chosen.
  float temperature = 1.0f;  // [0, 100]; 0 = greedy: the highest logit, of equal ones the lowest id
  float top_p = 1.0f;        // (0, 1]; 1 = off
  int32_t top_k = 0;         // 0 or -1 = off, else >= 1
  float min_p = 0.0f;        // [0, 1]; 0 = off
  std::optional<uint64_t> seed;  // absent: the engine draws one and reports it

  // What the history and the caller change in the logits.
  float repetition_penalty = 1.0f;                    // (0, 100]; over prompt and output
  float presence_penalty = 0.0f;                      // [-2, 2]; over output
  float frequency_penalty = 0.0f;                     // [-2, 2]; over output
  std::vector<std::pair<TokenId, float>> logit_bias;  // added to the logits; each in [-100, 100]
  std::vector<TokenId> allowed_token_ids;             // empty = all
  std::optional<StructuredOutputs> structured_outputs;

  // When it ends.
  // At most 64 non-empty strings of valid UTF-8, each of at most 4,096 bytes, found across token
  // borders; needs detokenize.
  std::vector<std::string> stop;
  std::vector<TokenId> stop_token_ids;  // at most 1,024
  bool include_stop_str_in_output = false;
  bool ignore_eos = false;
  std::optional<int32_t> max_tokens = 16;  // >= 1; absent = until the context is full
  int32_t min_tokens = 0;                  // no end-of-text and no stop before this many

  // What is reported: the N most likely tokens at each position; 0 = only the chosen; -1 = all.
  std::optional<int32_t> logprobs;         // of the output
  std::optional<int32_t> prompt_logprobs;  // of the prompt
  bool detokenize = true;
  bool skip_special_tokens = true;

  // `vocab_size` bounds the token ids and the log-probability counts; 0 leaves those two unchecked.
  Status Validate(int32_t vocab_size) const;
};

}  // namespace octavo
