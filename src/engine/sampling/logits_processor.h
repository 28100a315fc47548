#pragma once

// Purpose:    what the history and the caller change in a row of logits before a token is chosen:
//             masks, bias, penalties, in vLLM's order (docs/contracts/sampling.md, S2).
// Ownership:  copies what it needs of the parameters; owns the token counts of one sequence.
// Threading:  one thread at a time.
// Invariants: the counts cover the whole history, whether its K and V came from a cache or not;
//             nothing is allocated after construction; a step costs at most O(distinct tokens of
//             the history), plus O(vocab_size) with allowed tokens. No processed logit is NaN or
//             +inf if the raw ones are not.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "octavo/sampling_params.h"
#include "octavo/status.h"
#include "octavo/types.h"

namespace octavo::engine {

// An error if `allowed_token_ids` leaves nothing to choose while `min_tokens` forbids the end and
// stop tokens. REQUIRES: params.Validate() is OK.
Status CheckTokensCanBeChosen(const SamplingParams& params, std::span<const TokenId> eos_token_ids);

class LogitsProcessor {
 public:
  // REQUIRES: params.Validate(vocab_size) is OK; eos ids outside the vocabulary are ignored.
  LogitsProcessor(const SamplingParams& params, std::span<const TokenId> eos_token_ids,
                  int32_t vocab_size);

  void AddPrompt(std::span<const TokenId> token_ids);
  void AddOutput(TokenId token_id);

  // Changes `logits` [vocab_size] in place for the next output token. Returns false if nothing was
  // to be changed.
  bool Apply(std::span<float> logits) const;

 private:
  bool has_penalties() const { return !output_counts_.empty(); }
  void NoteInHistory(TokenId token_id);
  void ApplyAllowed(std::span<float> logits) const;
  void ApplyPenalties(std::span<float> logits) const;

  const int32_t vocab_size_;
  const int32_t min_tokens_;
  const float repetition_penalty_;
  const float presence_penalty_;
  const float frequency_penalty_;
  std::vector<TokenId> allowed_token_ids_;  // ascending, unique; empty = all
  std::vector<TokenId> end_token_ids_;      // end-of-text and stop tokens: masked before min_tokens
  std::vector<std::pair<TokenId, float>> logit_bias_;

  int32_t num_output_tokens_ = 0;
  std::vector<int32_t> output_counts_;       // [vocab_size], empty without penalties
  std::vector<uint8_t> in_history_;          // [vocab_size], empty without penalties
  std::vector<TokenId> distinct_token_ids_;  // those of in_history_, in order of appearance
};

}  // namespace octavo::engine
