// The part of EngineCore that runs beam searches: a beam waits after its logits until all beams of
// its request have theirs; then the likeliest continuations are chosen among all of them.

#include <algorithm>
#include <utility>

#include "engine/engine_core.h"

namespace octavo::engine {
namespace {

// The beam_width best, the best first; of equal ones the one that came first.
void KeepBest(const BeamSearchParams& params, std::vector<BeamGroup::Finished>* finished) {
  std::ranges::stable_sort(*finished,
                           [](const auto& a, const auto& b) { return a.score > b.score; });
  const auto width = static_cast<size_t>(params.beam_width);
  if (finished->size() > width) finished->resize(width);
}

}  // namespace

void EngineCore::TakeBeamRow(SequenceId id, std::span<const float> logits) {
  SequenceState& beam = state_.at(id);
  RequestState& request = *beam.request;
  if (!request.prompt_is_computed) {
    request.prompt_is_computed = true;
    NotePromptComputed(request);
  }
  // Only the likeliest are used; the "chosen" one is any token.
  beam.next = request.reporter->Report(logits, 0);
  Mark(ProfileZone::kSample);
  if (!beam.next) return EndBeams(request, FinishReason::kError);
  const bool all_ready = std::ranges::all_of(
      request.live, [this](SequenceId other) { return state_.at(other).next.has_value(); });
  if (all_ready) AdvanceBeams(request);
}

void EngineCore::AdvanceBeams(RequestState& request) {
  std::vector<SequenceId> beams = request.live;
  std::ranges::sort(beams, {}, [this](SequenceId id) { return state_.at(id).beam_rank; });
  std::vector<BeamView> views;
  for (const SequenceId id : beams) {
    views.push_back({state_.at(id).cumulative_logprob, state_.at(id).next->top});
  }
  const BeamSearchParams& params = *request.request.beam_search;
  const BeamStep step = ChooseBeams(params, context_.eos_token_ids, views);
  NoteToken(request, 0);
  for (const BeamChoice& choice : step.ended) {
    const SequenceState& parent = state_.at(beams[static_cast<size_t>(choice.parent)]);
    request.beams->finished.push_back(FinishedBeam(parent, &choice));
  }
  KeepBest(params, &request.beams->finished);
  FollowBeams(request, beams, step.going_on);
  ++request.beams->num_steps;
  if (request.live.empty() || request.beams->num_steps == MaxOutputTokens(request.request)) {
    EndBeams(request, FinishReason::kLength);
  }
}

// Each parent goes on as its first child; further children are forks of it, and a parent without
// any gives its blocks back.
void EngineCore::FollowBeams(RequestState& request, const std::vector<SequenceId>& beams,
                             std::span<const BeamChoice> choices) {
  std::vector<SequenceId> children;
  std::vector<bool> goes_on(beams.size());
  for (const BeamChoice& choice : choices) {
    const auto parent = static_cast<size_t>(choice.parent);
    if (!goes_on[parent]) {
      goes_on[parent] = true;
      children.push_back(beams[parent]);
      continue;
    }
    const SequenceState& source = state_.at(beams[parent]);
    std::unique_ptr<SequenceState> fork = NewSequence(request, 0, source.tokens);
    fork->logprobs = source.logprobs;
    if (options_.shares_blocks()) {
      fork->cache = cache_.Fork(source.cache);
      fork->phase = SequencePhase::kRunning;
    }
    children.push_back(state_.Insert(std::move(fork)));
  }
  for (size_t beam = 0; beam < beams.size(); ++beam) {
    if (!goes_on[beam]) state_.Erase(beams[beam]);
  }
  for (size_t rank = 0; rank < children.size(); ++rank) {
    SequenceState& child = state_.at(children[rank]);
    child.beam_rank = static_cast<int32_t>(rank);
    child.cumulative_logprob = choices[rank].cumulative_logprob;
    child.tokens.push_back(choices[rank].token.token_id);
    child.logprobs.push_back({choices[rank].token, {}});
    child.next.reset();
    if (options_.mode == KvCacheMode::kNone) cache_.Release(child.cache);
  }
}

// The output of a beam that ends: by an end-of-text token, or (null) as it is.
BeamGroup::Finished EngineCore::FinishedBeam(const SequenceState& beam,
                                             const BeamChoice* last) const {
  const RequestState& request = *beam.request;
  const auto output_begin = beam.tokens.begin() + request.num_prompt_tokens();
  BeamGroup::Finished finished;
  finished.tokens.assign(output_begin, beam.tokens.end());
  finished.logprobs = beam.logprobs;
  finished.cumulative_logprob = last ? last->cumulative_logprob : beam.cumulative_logprob;
  finished.score = BeamScore(finished.cumulative_logprob, beam.num_known(),
                             request.request.beam_search->length_penalty);
  if (last != nullptr) {
    finished.tokens.push_back(last->token.token_id);
    finished.logprobs.push_back({last->token, {}});
    finished.finish_reason = FinishReason::kStop;
  }
  return finished;
}

// The best of the finished and of those that still run.
void EngineCore::EndBeams(RequestState& request, FinishReason reason) {
  std::vector<BeamGroup::Finished> all = std::move(request.beams->finished);
  std::ranges::sort(request.live, {}, [this](SequenceId id) { return state_.at(id).beam_rank; });
  for (const SequenceId id : request.live) {
    all.push_back(FinishedBeam(state_.at(id), nullptr));
    all.back().finish_reason = reason;
  }
  while (!request.live.empty()) state_.Erase(request.live.back());
  KeepBest(*request.request.beam_search, &all);
  for (const BeamGroup::Finished& beam : all) EmitBeam(request, beam);
  request.num_unfinished = 0;
  FinishRequest(request);
}

void EngineCore::EmitBeam(RequestState& request, const BeamGroup::Finished& beam) {
  CompletionOutput output;
  output.index = static_cast<int32_t>(request.output.outputs.size());
  output.token_ids = beam.tokens;
  output.cumulative_logprob = beam.cumulative_logprob;
  output.finish_reason = beam.finish_reason;
  if (request.params().logprobs) output.logprobs = beam.logprobs;
  if (request.params().detokenize) {
    text::IncrementalDetokenizer detokenizer(
        *context_.tokenizer,
        {.skip_special = request.params().skip_special_tokens, .at_text_start = false});
    const bool ends = beam.finish_reason == FinishReason::kStop;
    for (size_t i = 0; i + (ends ? 1 : 0) < beam.tokens.size(); ++i) {
      output.text += detokenizer.Push(beam.tokens[i]);
    }
    output.text += detokenizer.Flush();
  }
  request.sink->OnDelta(
      {output.index, output.text, output.token_ids, output.logprobs, output.finish_reason, {}});
  request.output.outputs.push_back(std::move(output));
}

}  // namespace octavo::engine
