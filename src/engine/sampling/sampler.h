#pragma once

// Purpose:    chooses the next token of one request from a row of raw logits
//             (docs/contracts/sampling.md, S1 to S5).
// Ownership:  one per request; owns its buffers, borrows the kernels.
// Threading:  one thread at a time.
// Invariants: the choice is a function of the parameters, the seed, the position, the history and
//             the logits alone; nothing is allocated after construction, except for the
//             log-probabilities that are handed out.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/sampling/logits_processor.h"
#include "engine/sampling/logprobs.h"
#include "engine/sampling/top_tokens.h"
#include "kernels/row_ops.h"
#include "octavo/request_output.h"
#include "octavo/sampling_params.h"
#include "octavo/types.h"
#include "structured/token_bitmask.h"

namespace octavo::engine {

// Temperatures below this are greedy, as in vLLM.
inline constexpr float kMinTemperature = 1e-5f;

struct SamplerContext {
  int32_t vocab_size = 0;
  std::span<const TokenId> eos_token_ids = {};     // copied
  uint64_t seed = 0;                               // params.seed, or the one that the engine drew
  uint32_t stream = 0;                             // the completion's index
  const kernels::RowOpKernels* row_ops = nullptr;  // not null; outlives the sampler
};

class Sampler {
 public:
  // REQUIRES: params.Validate(context.vocab_size) is OK.
  Sampler(const SamplingParams& params, const SamplerContext& context);

  // The history, for the penalties: all prompt tokens once, cached or not, then each output token,
  // forced ones too.
  void AddPrompt(std::span<const TokenId> token_ids) { processor_.AddPrompt(token_ids); }
  void AddOutput(TokenId token_id) { processor_.AddOutput(token_id); }

  // The token at `position` (0-based, in the whole sequence) from the raw `logits` [vocab_size],
  // which it overwrites. Nothing if a logit is NaN or +inf, or if none but -inf is left: the
  // request ends with FinishReason::kError. Fills `logprobs`, if not null and if params.logprobs is
  // set. Does not add the token to the history. Only tokens of `mask` are chosen, if not null.
  std::optional<TokenId> Sample(std::span<float> logits, int64_t position,
                                TokenLogprobs* logprobs = nullptr,
                                const structured::TokenBitmask* mask = nullptr);

 private:
  std::optional<TokenId> Choose(std::span<float> logits, int64_t raw_argmax, int64_t position,
                                const structured::TokenBitmask* mask);
  void ScaleAndMask(std::span<float> logits, float max) const;
  TokenId DrawFromRow(double uniform);
  TokenId DrawFromTop(double uniform);
  std::span<const ScoredToken> KeepTopK();
  std::span<const ScoredToken> KeepTopP();
  double WeighBlocks();
  bool WeighUpTo(std::span<const ScoredToken> tokens, double target);

  const int32_t vocab_size_;
  const float temperature_;
  const float top_p_;
  const int32_t top_k_;     // 0 = off
  const float min_scaled_;  // log(min_p): scaled logits below it are dropped; -inf = off
  const uint64_t seed_;
  const uint32_t stream_;
  const kernels::RowOpKernels& row_ops_;
  LogitsProcessor processor_;
  std::optional<TopTokens> top_tokens_;              // absent when greedy
  std::vector<double> block_weights_;                // [num_blocks]
  std::vector<double> weights_;                      // capacity vocab_size; of the tokens looked at
  std::optional<LogprobReporter> logprob_reporter_;  // absent without params.logprobs
  std::vector<float> raw_logits_;                    // [vocab_size], empty without params.logprobs
};

}  // namespace octavo::engine
