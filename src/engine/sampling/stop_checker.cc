#include "engine/sampling/stop_checker.h"

#include <algorithm>

#include "base/check.h"

namespace octavo::engine {
namespace {

std::vector<uint32_t> FailureFunction(std::string_view text) {
  std::vector<uint32_t> fail(text.size() + 1, 0);
  uint32_t length = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    while (length > 0 && text[i] != text[length]) length = fail[length];
    if (text[i] == text[length]) ++length;
    fail[i + 1] = length;
  }
  return fail;
}

bool Contains(const std::vector<TokenId>& token_ids, TokenId token_id) {
  return std::find(token_ids.begin(), token_ids.end(), token_id) != token_ids.end();
}

}  // namespace

StopChecker::StopChecker(const SamplingParams& params, std::span<const TokenId> eos_token_ids,
                         int32_t max_output_tokens)
    : max_output_tokens_(max_output_tokens),
      min_tokens_(params.min_tokens),
      include_stop_str_(params.include_stop_str_in_output),
      stop_token_ids_(params.stop_token_ids) {
  if (!params.ignore_eos) eos_token_ids_.assign(eos_token_ids.begin(), eos_token_ids.end());
  patterns_.reserve(params.stop.size());
  for (const std::string& text : params.stop) {
    OCTAVO_CHECK(!text.empty(), "Validate refuses empty stop strings");
    patterns_.push_back({text, FailureFunction(text), 0});
  }
}

FinishReason StopChecker::FinishReasonOf(TokenId token_id) const {
  if (IsEos(token_id) || IsStopToken(token_id)) return FinishReason::kStop;
  return num_output_tokens_ + 1 >= max_output_tokens_ ? FinishReason::kLength : FinishReason::kNone;
}

bool StopChecker::KeepsTextOf(TokenId token_id) const {
  return include_stop_str_ || FinishReasonOf(token_id) != FinishReason::kStop;
}

bool StopChecker::IsEos(TokenId token_id) const {
  return num_output_tokens_ >= min_tokens_ && Contains(eos_token_ids_, token_id);
}

bool StopChecker::IsStopToken(TokenId token_id) const {
  return num_output_tokens_ >= min_tokens_ && Contains(stop_token_ids_, token_id);
}

StopUpdate StopChecker::Push(TokenId token_id, std::string_view text) {
  OCTAVO_CHECK(!ended_, "the request has ended already");
  // Forget the streamed bytes, but not at each call, so that a long held-back text is not moved
  // again and again.
  if (released_ * 2 >= pending_.size()) {
    pending_.erase(0, released_);
    released_ = 0;
  }
  StopUpdate update;
  update.finish_reason = FinishReasonOf(token_id);
  if (!IsEos(token_id) && IsStopToken(token_id)) update.stop_reason = token_id;
  const bool may_stop = num_output_tokens_ >= min_tokens_;
  ++num_output_tokens_;

  size_t match_end = 0;  // bytes of `text`
  const Pattern* match = Scan(text, may_stop, &match_end);
  pending_.append(text.substr(0, match_end));
  size_t release_end = pending_.size();
  if (match != nullptr) {
    update.finish_reason = FinishReason::kStop;
    update.stop_reason = match->text;
    if (!include_stop_str_) release_end -= match->text.size();
  } else if (update.finish_reason == FinishReason::kNone) {
    release_end -= HeldBytes();
  }
  ended_ = update.finish_reason != FinishReason::kNone;
  update.text = std::string_view(pending_).substr(released_, release_end - released_);
  released_ = release_end;
  return update;
}

std::string_view StopChecker::Flush(std::string_view tail) {
  OCTAVO_CHECK(!ended_, "the request has ended already");
  ended_ = true;
  pending_.append(tail);
  return std::string_view(pending_).substr(released_);
}

// The stop string that is complete first in `text`, of several at one byte the first of the list;
// null if none, or if `may_stop` is false. `*match_end`: the end of the match, or of the text.
const StopChecker::Pattern* StopChecker::Scan(std::string_view text, bool may_stop,
                                              size_t* match_end) {
  for (size_t i = 0; i < text.size(); ++i) {
    const Pattern* complete = nullptr;
    for (Pattern& pattern : patterns_) {
      uint32_t matched = pattern.matched;
      while (matched > 0 && pattern.text[matched] != text[i]) matched = pattern.fail[matched];
      if (pattern.text[matched] == text[i]) ++matched;
      if (matched == pattern.text.size()) {
        if (complete == nullptr) complete = &pattern;
        matched = pattern.fail[matched];
      }
      pattern.matched = matched;
    }
    if (may_stop && complete != nullptr) {
      *match_end = i + 1;
      return complete;
    }
  }
  *match_end = text.size();
  return nullptr;
}

size_t StopChecker::HeldBytes() const {
  if (include_stop_str_) return 0;
  size_t held = 0;
  for (const Pattern& pattern : patterns_) held = std::max<size_t>(held, pattern.matched);
  return held;
}

}  // namespace octavo::engine
