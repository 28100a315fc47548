#pragma once

// Purpose:    what the engine knows of one request and of its sequences while they live.
// Ownership:  a RequestState owns its request and its completions; a SequenceState owns its blocks,
//             in the pool or in the swap space. CoreState owns SequenceStates.
// Threading:  made on the submitting thread, then the engine thread only.
// Invariants: a sequence is kWaiting (holds no block), kRunning (may hold blocks), or has no id
//             yet: those of the later completions of a request begin when its prompt is computed.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/beam_search.h"
#include "engine/completion.h"
#include "engine/scheduling/step_plan.h"
#include "engine/swap_space.h"
#include "octavo/kvcache/cached_sequence.h"
#include "octavo/request.h"
#include "octavo/request_output.h"

namespace octavo::engine {

struct RequestState;

enum class SequencePhase { kWaiting, kRunning };

struct SequenceState {
  RequestState* request = nullptr;
  int32_t index = 0;  // of its completion; 0 for a beam search
  SequencePhase phase = SequencePhase::kWaiting;
  std::vector<TokenId> tokens;  // prompt and output so far; the capacity is the longest it can get
  kvcache::CachedSequence cache;
  SwappedBlocks swapped;

  // Of a beam search: how likely the output so far is, and the ways to go on from it, once known.
  int32_t beam_rank = 0;  // 0 = the likeliest
  double cumulative_logprob = 0.0;
  std::vector<TokenLogprobs> logprobs;  // of the output so far
  std::optional<TokenLogprobs> next;    // its top holds the candidates

  int64_t num_computed() const { return cache.num_tokens(); }
  int64_t num_known() const { return static_cast<int64_t>(tokens.size()); }
};

// Seconds on the executor's clock; negative = not yet.
struct RequestTimes {
  double submitted = 0.0;
  double admitted = -1.0;
  double first_token = -1.0;
};

struct RequestState {
  RequestId id = 0;
  uint64_t arrival = 0;
  Request request;
  uint64_t seed = 0;
  std::string root;  // see kvcache/root_key.h
  // Shared with the caller's end of the stream, either of which may be the last to need it.
  std::shared_ptr<RequestSink> sink;
  uint64_t abort_epoch = 0;

  // Of its structured outputs; null without.
  std::shared_ptr<const structured::CompiledGrammar> grammar;
  std::vector<Completion> completions;  // [n]; empty for a beam search
  // Of the prompt's log-probabilities, or of a beam's candidates; absent if neither is wanted.
  std::optional<LogprobReporter> reporter;
  std::optional<BeamGroup> beams;
  std::vector<SequenceId> live;     // its sequences that have an id
  int32_t num_unfinished = 0;       // completions that have not ended
  bool prompt_is_computed = false;  // the later completions have begun

  RequestOutput output;
  RequestTimes times;

  const SamplingParams& params() const { return request.params; }
  int64_t num_prompt_tokens() const {
    return static_cast<int64_t>(request.prompt_token_ids.size());
  }
  // Positions of the prompt whose log-probabilities are still to be reported.
  bool wants_prompt_logprobs() const {
    return params().prompt_logprobs && !beams &&
           static_cast<int64_t>(output.prompt_logprobs.size()) + 1 < num_prompt_tokens();
  }
};

}  // namespace octavo::engine
