#pragma once

// Purpose:    one call of /v1/completions or /v1/chat/completions, parsed: what the engine is to do
//             and how the answer is to look.
// Ownership:  plain values.
// Threading:  plain data.
// Invariants: none.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "octavo/engine.h"
#include "server/json_fields.h"

namespace octavo::server {

struct AnswerOptions {
  bool stream = false;
  bool include_usage = false;        // a last chunk with the usage
  bool continuous_usage = false;     // the usage so far in every chunk
  bool return_token_ids = false;     // vLLM: token_ids beside the text
  bool tokens_as_token_ids = false;  // vLLM: "token_id:N" where a token's text would stand
  std::string request_id;            // vLLM: instead of the header's; empty = none
  bool include_metrics = false;      // times of this request
  bool explain = false;
  bool skips_special_tokens = true;     // in the text
  std::optional<int32_t> num_logprobs;  // per token, beside the chosen one
};

struct ApiCall {
  std::vector<Request> requests;  // one per prompt
  AnswerOptions answer;
  std::string model;  // as asked for; empty = any
};

// What every answer and chunk begins with.
struct AnswerHead {
  std::string id;
  std::string model;
  int64_t created = 0;  // seconds since 1970
};

// stream, stream_options, return_token_ids, return_tokens_as_token_ids, include_metrics.
void ReadAnswerFields(JsonFields& fields, AnswerOptions* answer);

// What the engine would refuse to generate from (Engine::Check), where nothing is generated.
std::optional<ApiError> CheckRequests(const ApiCall& call, const Engine& engine);

// An error with the figures if the prompt leaves no room for an answer.
std::optional<ApiError> CheckContext(size_t num_prompt_tokens, int32_t max_model_len);

}  // namespace octavo::server
