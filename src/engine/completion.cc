#include "engine/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace octavo::engine {
namespace {

SamplerContext MakeSamplerContext(const CompletionContext& context, uint64_t seed, int32_t index) {
  SamplerContext sampler;
  sampler.vocab_size = context.vocab_size;
  sampler.eos_token_ids = context.eos_token_ids;
  sampler.seed = seed;
  sampler.stream = static_cast<uint32_t>(index);
  sampler.row_ops = context.row_ops;
  return sampler;
}

}  // namespace

int32_t MaxOutputTokens(std::optional<int32_t> max_tokens, int32_t max_model_len,
                        int64_t num_prompt_tokens) {
  const auto room = static_cast<int32_t>(max_model_len - num_prompt_tokens);
  return max_tokens ? std::min(*max_tokens, room) : room;
}

Status CheckPromptAndParams(const CompletionContext& context, std::span<const TokenId> prompt,
                            const SamplingParams& params) {
  if (prompt.empty()) {
    return Status::InvalidArgument("the prompt is empty; at least 1 token is needed");
  }
  if (prompt.size() >= static_cast<size_t>(context.max_model_len)) {
    return Status::InvalidArgument(fmt::format(
        "the prompt has {} tokens, but max_model_len is {} (prompt and at least 1 output token)",
        prompt.size(), context.max_model_len));
  }
  for (size_t i = 0; i < prompt.size(); ++i) {
    if (prompt[i] < 0 || prompt[i] >= context.vocab_size) {
      return Status::InvalidArgument(fmt::format("prompt token {} is {}, but must be in [0, {}]", i,
                                                 prompt[i], context.vocab_size - 1));
    }
  }
  if (Status status = params.Validate(context.vocab_size); !status.ok()) return status;
  return CheckTokensCanBeChosen(params, context.eos_token_ids);
}

Completion::Completion(const CompletionContext& context, const SamplingParams& params,
                       uint64_t seed, int32_t index, std::span<const TokenId> prompt,
                       const std::shared_ptr<const structured::CompiledGrammar>& grammar)
    : eos_token_ids_(context.eos_token_ids),
      ignore_eos_(params.ignore_eos),
      reports_logprobs_(params.logprobs.has_value()),
      detokenize_(params.detokenize),
      row_ops_(context.row_ops),
      profiler_(context.profiler),
      sampler_(params, MakeSamplerContext(context, seed, index)),
      stop_checker_(params, context.eos_token_ids,
                    MaxOutputTokens(params.max_tokens, context.max_model_len,
                                    static_cast<int64_t>(prompt.size()))) {
  OCTAVO_CHECK(!detokenize_ || context.tokenizer != nullptr, "text needs a tokenizer");
  if (detokenize_) {
    detokenizer_.emplace(*context.tokenizer,
                         text::DetokenizeOptions{.skip_special = params.skip_special_tokens,
                                                 .at_text_start = false});
  }
  if (grammar != nullptr) {
    structure_.emplace(Structure{structured::GrammarMatcher(grammar, params.n),
                                 structured::TokenBitmask(context.vocab_size)});
  }
  sampler_.AddPrompt(prompt);
  output_.index = index;
  output_.token_ids.reserve(static_cast<size_t>(MaxOutputTokens(
      params.max_tokens, context.max_model_len, static_cast<int64_t>(prompt.size()))));
}

Completion::Step Completion::Advance(std::span<float> logits, int64_t position, RequestSink& sink) {
  TokenLogprobs logprobs;
  const bool is_finite =
      !structure_ ||
      row_ops_->argmax_finite(logits.data(), static_cast<int64_t>(logits.size())) >= 0;
  const std::optional<TokenId> token =
      sampler_.Sample(logits, position, reports_logprobs_ ? &logprobs : nullptr, NextMask());
  if (profiler_ != nullptr) profiler_->Mark(0, ProfileZone::kSample);
  // Should a mask of the grammar library ever allow what its matcher refuses, the output ends.
  const bool is_accepted = token.has_value() && (!structure_ || structure_->matcher.Accept(*token));
  if (!is_accepted) {
    const bool is_whole = structure_ && is_finite && structure_->matcher.IsCompleted();
    const FinishReason reason = is_whole ? FinishReason::kStop : FinishReason::kError;
    End(reason, sink);
    return {std::nullopt, reason};
  }
  const FinishReason expected = stop_checker_.FinishReasonOf(*token);
  std::string piece;
  if (detokenize_) {
    if (stop_checker_.KeepsTextOf(*token)) piece = detokenizer_->Push(*token);
    if (expected != FinishReason::kNone) piece += detokenizer_->Flush();
  }
  StopUpdate update = stop_checker_.Push(*token, piece);
  sampler_.AddOutput(*token);
  output_.token_ids.push_back(*token);
  output_.text += update.text;
  output_.stop_reason = std::move(update.stop_reason);
  output_.finish_reason = update.finish_reason;
  if (reports_logprobs_) {
    output_.cumulative_logprob += static_cast<double>(logprobs.chosen.logprob);
    output_.logprobs.push_back(std::move(logprobs));
  }
  RequestDelta delta{output_.index,        update.text,        std::span(&*token, 1), {},
                     update.finish_reason, output_.stop_reason};
  if (reports_logprobs_) delta.logprobs = std::span(&output_.logprobs.back(), 1);
  sink.OnDelta(delta);
  return {token, update.finish_reason};
}

// Which tokens may come next; null: all. With ignore_eos the output goes on as long as anything
// else may come.
const structured::TokenBitmask* Completion::NextMask() {
  if (!structure_) return nullptr;
  if (!structure_->matcher.FillMask(&structure_->mask)) structure_->mask.ForbidAll();
  if (ignore_eos_) {
    for (const TokenId id : eos_token_ids_) structure_->mask.Forbid(id);
  }
  return &structure_->mask;
}

void Completion::End(FinishReason reason, RequestSink& sink) {
  const std::string tail = detokenize_ ? detokenizer_->Flush() : std::string();
  const std::string_view text = stop_checker_.Flush(tail);
  output_.text += text;
  output_.finish_reason = reason;
  sink.OnDelta({output_.index, text, {}, {}, reason, {}});
}

}  // namespace octavo::engine
