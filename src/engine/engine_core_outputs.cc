// The part of EngineCore that comes after a step: what the rows of logits lead to.

#include <algorithm>
#include <utility>

#include "engine/engine_core.h"

namespace octavo::engine {

void EngineCore::ReadLogits() {
  const auto num_outputs = static_cast<int64_t>(batch_output_rows_.size());
  const int64_t rows_at_once = executor_.max_logits_rows();
  const auto vocab_size = static_cast<size_t>(executor_.vocab_size());
  std::span<float> logits;
  int64_t output = 0;
  for (const BatchEntry& entry : batch_) {
    for (int64_t i = 0; i < entry.num_output_rows; ++i, ++output) {
      if (output % rows_at_once == 0) {
        logits = executor_.Logits(output, std::min(rows_at_once, num_outputs - output));
      }
      const auto offset = static_cast<size_t>(output % rows_at_once) * vocab_size;
      // The sequence may have ended at an earlier row of this step.
      if (state_.Find(entry.id) == nullptr) continue;
      const int64_t position = state_.at(entry.id).num_computed() - entry.num_output_rows + i;
      TakeRow(entry.id, position, logits.subspan(offset, vocab_size));
      Mark(ProfileZone::kPublish);
    }
  }
}

// `logits` predict the token after `position`.
void EngineCore::TakeRow(SequenceId id, int64_t position, std::span<float> logits) {
  SequenceState& sequence = state_.at(id);
  RequestState& request = *sequence.request;
  if (request.wants_prompt_logprobs() && position + 1 < request.num_prompt_tokens()) {
    if (!ReportPromptLogprob(request, position, logits)) EndRequest(request, FinishReason::kError);
    return;
  }
  if (position + 1 < sequence.num_known()) return;
  if (request.beams) {
    TakeBeamRow(id, logits);
  } else if (!request.prompt_is_computed) {
    BeginCompletions(id, logits);
  } else {
    TakeNextToken(id, logits);
  }
}

bool EngineCore::ReportPromptLogprob(RequestState& request, int64_t position,
                                     std::span<const float> logits) {
  // After a preemption the prompt is computed again.
  if (position < static_cast<int64_t>(request.output.prompt_logprobs.size())) return true;
  std::optional<TokenLogprobs> report = request.reporter->Report(
      logits, request.request.prompt_token_ids[static_cast<size_t>(position) + 1]);
  Mark(ProfileZone::kSample);
  if (!report) return false;
  request.output.prompt_logprobs.push_back(*std::move(report));
  return true;
}

// The prompt is computed: every completion draws its first token from the same logits, and the
// later ones share the first one's blocks from here on.
void EngineCore::BeginCompletions(SequenceId first, std::span<float> logits) {
  RequestState& request = *state_.at(first).request;
  request.prompt_is_computed = true;
  NotePromptComputed(request);
  const auto num = static_cast<int32_t>(request.completions.size());
  if (num == 1) return TakeNextToken(first, logits);

  std::ranges::copy(logits, row_copy_.begin());
  std::vector<SequenceId> ids{first};
  for (int32_t index = 1; index < num; ++index) {
    std::unique_ptr<SequenceState> sequence =
        NewSequence(request, index, request.request.prompt_token_ids);
    if (options_.shares_blocks()) {
      sequence->cache = cache_.Fork(state_.at(first).cache);
      sequence->phase = SequencePhase::kRunning;
    }
    ids.push_back(state_.Insert(std::move(sequence)));
  }
  for (const SequenceId id : ids) {
    std::ranges::copy(row_copy_, logits.begin());
    TakeNextToken(id, logits);
  }
}

void EngineCore::NotePromptComputed(RequestState& request) {
  const double now = executor_.Now();
  request.output.timing.prefill_s = now - request.times.admitted;
  if (request.request.pin_ttl_ms) {
    kvcache::PinId pin;
    cache_.Pin(request.root, request.request.prompt_token_ids, *request.request.pin_ttl_ms, &pin);
  }
}

void EngineCore::TakeNextToken(SequenceId id, std::span<float> logits) {
  SequenceState& sequence = state_.at(id);
  RequestState& request = *sequence.request;
  Completion& completion = request.completions[static_cast<size_t>(sequence.index)];
  const Completion::Step step = completion.Advance(logits, sequence.num_known(), *request.sink);
  if (step.token) {
    sequence.tokens.push_back(*step.token);
    NoteToken(request, sequence.index);
  }
  if (step.finish_reason != FinishReason::kNone) return EndSequence(id);
  // The baseline without a cache forgets K and V once they have given a token.
  if (options_.mode == KvCacheMode::kNone) cache_.Release(sequence.cache);
}

void EngineCore::NoteToken(RequestState& request, int32_t index) {
  ++stats_.num_generation_tokens;
  const double now = executor_.Now();
  if (request.times.first_token < 0) request.times.first_token = now;
  if (index == 0) request.output.timing.token_s.push_back(now - request.times.submitted);
}

}  // namespace octavo::engine
