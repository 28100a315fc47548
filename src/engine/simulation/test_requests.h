#pragma once

// Purpose:    requests for tests on the simulated engine.
// Ownership:  values.
// Threading:  pure.
// Invariants: none.

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "octavo/request.h"

namespace octavo::engine {

// `length` tokens of [2, 31]; another `variant` differs from the first token on.
inline std::vector<TokenId> PromptOf(int64_t length, uint32_t variant = 0) {
  std::mt19937 random(variant);
  std::vector<TokenId> prompt{static_cast<TokenId>(2 + variant % 30)};
  while (static_cast<int64_t>(prompt.size()) < length) {
    prompt.push_back(static_cast<TokenId>(2 + random() % 30));
  }
  return prompt;
}

// Greedy, exactly max_tokens long, no text.
inline Request Greedy(std::vector<TokenId> prompt, int32_t max_tokens) {
  Request request;
  request.prompt_token_ids = std::move(prompt);
  request.params.temperature = 0.0f;
  request.params.max_tokens = max_tokens;
  request.params.ignore_eos = true;
  request.params.logprobs = 1;
  request.params.detokenize = false;
  return request;
}

inline Request Drawn(std::vector<TokenId> prompt, int32_t max_tokens) {
  Request request = Greedy(std::move(prompt), max_tokens);
  request.params.temperature = 1.0f;
  return request;
}

inline Request Beams(std::vector<TokenId> prompt, int32_t beam_width, int32_t max_tokens) {
  Request request = Greedy(std::move(prompt), max_tokens);
  request.params.logprobs = 0;
  request.beam_search = {.beam_width = beam_width, .max_tokens = max_tokens};
  return request;
}

}  // namespace octavo::engine
