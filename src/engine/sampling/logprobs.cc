#include "engine/sampling/logprobs.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"

namespace octavo::engine {
namespace {

// The place of `chosen` among the logits in falling order, of equal ones the lowest id first; 1 =
// the highest.
int32_t RankOf(std::span<const float> logits, TokenId chosen) {
  const auto split = static_cast<size_t>(chosen);
  const float logit = logits[split];
  int32_t before = 0;
  for (float other : logits.first(split)) before += other >= logit ? 1 : 0;
  for (float other : logits.subspan(split + 1)) before += other > logit ? 1 : 0;
  return before + 1;
}

}  // namespace

LogprobReporter::LogprobReporter(int32_t num_top, int32_t vocab_size,
                                 const kernels::RowOpKernels& row_ops)
    : num_top_(num_top < 0 ? vocab_size : num_top),
      vocab_size_(vocab_size),
      row_ops_(row_ops),
      top_tokens_(vocab_size, row_ops) {}

std::optional<TokenLogprobs> LogprobReporter::Report(std::span<const float> logits,
                                                     TokenId chosen) {
  OCTAVO_CHECK(
      logits.size() == static_cast<size_t>(vocab_size_) && chosen >= 0 && chosen < vocab_size_,
      "a row of logits has one per token, the chosen one included");
  const int64_t argmax = row_ops_.argmax_finite(logits.data(), vocab_size_);
  if (argmax < 0) return std::nullopt;
  const float log_sum =
      row_ops_.log_sum_exp(logits.data(), vocab_size_, logits[static_cast<size_t>(argmax)]);

  TokenLogprobs result;
  result.chosen = {chosen, logits[static_cast<size_t>(chosen)] - log_sum, RankOf(logits, chosen)};
  if (num_top_ == 0) return result;
  top_tokens_.SetRow(logits);
  result.top.reserve(static_cast<size_t>(num_top_));
  int32_t rank = 0;
  for (const ScoredToken& token : top_tokens_.Select(num_top_)) {
    result.top.push_back({token.token_id, token.logit - log_sum, ++rank});
  }
  return result;
}

}  // namespace octavo::engine
