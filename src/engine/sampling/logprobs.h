#pragma once

// Purpose:    the log-probabilities of the raw distribution, before temperature, penalties and
//             bias, for the output and for the prompt (docs/contracts/sampling.md, S6).
// Ownership:  owns its buffers.
// Threading:  one thread at a time.
// Invariants: logprob = logit - log_sum_exp in float32; tokens are ordered by their raw logit, of
//             equal ones the lowest id first; `rank` is the place in that order, so that the top
//             list's ranks are 1, 2, 3, ...

#include <cstdint>
#include <optional>
#include <span>

#include "engine/sampling/top_tokens.h"
#include "kernels/row_ops.h"
#include "octavo/request_output.h"
#include "octavo/types.h"

namespace octavo::engine {

class LogprobReporter {
 public:
  // `num_top`: how many of the most likely to report; -1 = all. `row_ops` outlives the reporter.
  LogprobReporter(int32_t num_top, int32_t vocab_size, const kernels::RowOpKernels& row_ops);

  // For `chosen` after the raw `logits` [vocab_size]; nothing if one of them is NaN or +inf, or all
  // are -inf.
  std::optional<TokenLogprobs> Report(std::span<const float> logits, TokenId chosen);

 private:
  const int32_t num_top_;
  const int32_t vocab_size_;
  const kernels::RowOpKernels& row_ops_;
  TopTokens top_tokens_;
};

}  // namespace octavo::engine
