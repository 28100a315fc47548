#pragma once

// Purpose:    the choice of a beam search: which continuations of which beams live on, and which
//             have ended. As vLLM's: each beam offers its 2 * beam_width likeliest tokens; those
//             that end the text are set aside as finished, the best beam_width others go on.
// Ownership:  plain values.
// Threading:  the engine thread.
// Invariants: the choice depends on the candidates alone; of equal ones the lower beam, then the
//             likelier token, then the lower token id comes first.

#include <cstdint>
#include <span>
#include <vector>

#include "octavo/request.h"
#include "octavo/request_output.h"
#include "octavo/status.h"

namespace octavo::engine {

// One beam's ways to go on.
struct BeamView {
  double cumulative_logprob = 0.0;
  std::span<const TokenLogprob> candidates;  // the likeliest first
};

struct BeamChoice {
  int32_t parent = 0;  // index into the beams
  TokenLogprob token;
  double cumulative_logprob = 0.0;
};

struct BeamStep {
  std::vector<BeamChoice> going_on;  // at most beam_width, the best first
  std::vector<BeamChoice> ended;     // by an end-of-text token
};

BeamStep ChooseBeams(const BeamSearchParams& params, std::span<const TokenId> eos_token_ids,
                     std::span<const BeamView> beams);

// What a finished hypothesis is ranked by. `num_tokens`: of prompt and output, without the
// end-of-text, as vLLM counts.
double BeamScore(double cumulative_logprob, int64_t num_tokens, float length_penalty);

// What a request remembers of its search.
struct BeamGroup {
  struct Finished {
    std::vector<TokenId> tokens;  // of the output
    std::vector<TokenLogprobs> logprobs;
    double cumulative_logprob = 0.0;
    double score = 0.0;
    FinishReason finish_reason = FinishReason::kNone;
  };
  std::vector<Finished> finished;
  int64_t num_steps = 0;
};

Status CheckBeamSearch(const BeamSearchParams& params);

}  // namespace octavo::engine
