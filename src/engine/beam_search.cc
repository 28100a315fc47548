#include "engine/beam_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace octavo::engine {

Status CheckBeamSearch(const BeamSearchParams& params) {
  constexpr int32_t kMaxBeamWidth = 64;
  if (params.beam_width < 1 || params.beam_width > kMaxBeamWidth) {
    return Status::InvalidArgument(
        fmt::format("beam_width is {}, but must be in [1, {}]", params.beam_width, kMaxBeamWidth));
  }
  if (params.max_tokens < 1) {
    return Status::InvalidArgument(
        fmt::format("max_tokens is {}, but must be at least 1", params.max_tokens));
  }
  if (!(std::abs(params.length_penalty) <= 10.0f)) {
    return Status::InvalidArgument(
        fmt::format("length_penalty is {}, but must be in [-10, 10]", params.length_penalty));
  }
  return Status::Ok();
}

BeamStep ChooseBeams(const BeamSearchParams& params, std::span<const TokenId> eos_token_ids,
                     std::span<const BeamView> beams) {
  BeamStep step;
  for (size_t beam = 0; beam < beams.size(); ++beam) {
    for (const TokenLogprob& token : beams[beam].candidates) {
      const BeamChoice choice{static_cast<int32_t>(beam), token,
                              beams[beam].cumulative_logprob + static_cast<double>(token.logprob)};
      const bool ends = !params.ignore_eos &&
                        std::ranges::find(eos_token_ids, token.token_id) != eos_token_ids.end();
      (ends ? step.ended : step.going_on).push_back(choice);
    }
  }
  // Stable: beams and their candidates were listed in the order that breaks ties.
  std::ranges::stable_sort(step.going_on, [](const BeamChoice& a, const BeamChoice& b) {
    return a.cumulative_logprob > b.cumulative_logprob;
  });
  const auto width = static_cast<size_t>(params.beam_width);
  if (step.going_on.size() > width) step.going_on.resize(width);
  return step;
}

double BeamScore(double cumulative_logprob, int64_t num_tokens, float length_penalty) {
  const auto length = static_cast<double>(std::max<int64_t>(num_tokens, 1));
  return cumulative_logprob / std::pow(length, static_cast<double>(length_penalty));
}

}  // namespace octavo::engine
