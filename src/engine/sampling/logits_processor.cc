#include "engine/sampling/logits_processor.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <limits>

#include "base/check.h"

namespace octavo::engine {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

size_t Index(TokenId token_id) { return static_cast<size_t>(token_id); }

void SortUnique(std::vector<TokenId>& token_ids) {
  std::sort(token_ids.begin(), token_ids.end());
  token_ids.erase(std::unique(token_ids.begin(), token_ids.end()), token_ids.end());
}

// The tokens that may end a request, which min_tokens masks: end-of-text also with ignore_eos, as
// in vLLM.
std::vector<TokenId> EndTokenIds(const SamplingParams& params,
                                 std::span<const TokenId> eos_token_ids) {
  std::vector<TokenId> token_ids(eos_token_ids.begin(), eos_token_ids.end());
  token_ids.insert(token_ids.end(), params.stop_token_ids.begin(), params.stop_token_ids.end());
  SortUnique(token_ids);
  return token_ids;
}

bool HasPenalties(const SamplingParams& params) {
  return params.repetition_penalty != 1.0f || params.presence_penalty != 0.0f ||
         params.frequency_penalty != 0.0f;
}

}  // namespace

Status CheckTokensCanBeChosen(const SamplingParams& params,
                              std::span<const TokenId> eos_token_ids) {
  if (params.allowed_token_ids.empty() || params.min_tokens == 0) return Status::Ok();
  const std::vector<TokenId> end_token_ids = EndTokenIds(params, eos_token_ids);
  for (TokenId token_id : params.allowed_token_ids) {
    if (!std::binary_search(end_token_ids.begin(), end_token_ids.end(), token_id)) {
      return Status::Ok();
    }
  }
  return Status::InvalidArgument(
      fmt::format("allowed_token_ids holds only tokens that end the request, but min_tokens is {}, "
                  "so must hold another",
                  params.min_tokens));
}

LogitsProcessor::LogitsProcessor(const SamplingParams& params,
                                 std::span<const TokenId> eos_token_ids, int32_t vocab_size)
    : vocab_size_(vocab_size),
      min_tokens_(params.min_tokens),
      repetition_penalty_(params.repetition_penalty),
      presence_penalty_(params.presence_penalty),
      frequency_penalty_(params.frequency_penalty),
      allowed_token_ids_(params.allowed_token_ids),
      end_token_ids_(EndTokenIds(params, eos_token_ids)),
      logit_bias_(params.logit_bias) {
  SortUnique(allowed_token_ids_);
  std::erase_if(end_token_ids_, [vocab_size](TokenId id) { return id < 0 || id >= vocab_size; });
  if (!HasPenalties(params)) return;
  output_counts_.assign(Index(vocab_size), 0);
  in_history_.assign(Index(vocab_size), 0);
  distinct_token_ids_.reserve(Index(vocab_size));
}

void LogitsProcessor::AddPrompt(std::span<const TokenId> token_ids) {
  if (!has_penalties()) return;
  for (TokenId token_id : token_ids) NoteInHistory(token_id);
}

void LogitsProcessor::AddOutput(TokenId token_id) {
  ++num_output_tokens_;
  if (!has_penalties()) return;
  NoteInHistory(token_id);
  ++output_counts_[Index(token_id)];
}

void LogitsProcessor::NoteInHistory(TokenId token_id) {
  OCTAVO_CHECK(token_id >= 0 && token_id < vocab_size_, "the history holds an unknown token");
  if (in_history_[Index(token_id)] != 0) return;
  in_history_[Index(token_id)] = 1;
  distinct_token_ids_.push_back(token_id);
}

bool LogitsProcessor::Apply(std::span<float> logits) const {
  OCTAVO_CHECK(logits.size() == Index(vocab_size_), "a row of logits has one per token");
  const bool masks_end = num_output_tokens_ < min_tokens_ && !end_token_ids_.empty();
  const bool penalizes = !distinct_token_ids_.empty();
  if (allowed_token_ids_.empty() && !masks_end && logit_bias_.empty() && !penalizes) return false;

  if (!allowed_token_ids_.empty()) ApplyAllowed(logits);
  if (masks_end) {
    for (TokenId token_id : end_token_ids_) logits[Index(token_id)] = kMasked;
  }
  for (const auto& [token_id, bias] : logit_bias_) logits[Index(token_id)] += bias;
  if (penalizes) ApplyPenalties(logits);
  return true;
}

void LogitsProcessor::ApplyAllowed(std::span<float> logits) const {
  auto gap_begin = logits.begin();
  for (TokenId token_id : allowed_token_ids_) {
    const auto allowed = logits.begin() + token_id;
    std::fill(gap_begin, allowed, kMasked);
    gap_begin = allowed + 1;
  }
  std::fill(gap_begin, logits.end(), kMasked);
}

void LogitsProcessor::ApplyPenalties(std::span<float> logits) const {
  for (TokenId token_id : distinct_token_ids_) {
    float logit = logits[Index(token_id)];
    if (repetition_penalty_ != 1.0f) {
      logit = logit > 0.0f ? logit / repetition_penalty_ : logit * repetition_penalty_;
    }
    if (const int32_t count = output_counts_[Index(token_id)]; count > 0) {
      logit -= frequency_penalty_ * static_cast<float>(count);
      logit -= presence_penalty_;
    }
    // A tiny repetition penalty can overflow; the highest finite value still wins.
    logits[Index(token_id)] = std::min(logit, std::numeric_limits<float>::max());
  }
}

}  // namespace octavo::engine
