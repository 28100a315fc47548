#pragma once

// Purpose:    the body of /v1/completions.
// Ownership:  plain values.
// Threading:  any thread: a worker parses and tokenizes.
// Invariants: every prompt has at least one token and fits the context; token ids are in range.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "octavo/engine.h"
#include "server/api_call.h"
#include "server/server_options.h"

namespace octavo::server {

// A prompt, and its text if it came as one.
struct Prompt {
  std::vector<TokenId> token_ids;
  std::optional<std::string> text;
};

struct CompletionCall : ApiCall {
  std::vector<std::string> echoed;  // with echo: what stands before each answer
  bool echo = false;
  bool only_echo = false;  // max_tokens 0: the token that is computed is not shown
};

ApiResult<CompletionCall> ParseCompletion(std::string_view body, const LimitOptions& limits,
                                          const Engine& engine);

// The prompts of a request: a text, an array of texts, an array of token ids or one of arrays.
ApiResult<std::vector<Prompt>> ReadPrompts(const boost::json::value& prompt,
                                           const TokenizeOptions& options, size_t max_prompts,
                                           const Engine& engine);

// add_special_tokens and parse_special, both true if absent: a raw prompt may spell special tokens.
TokenizeOptions ReadTokenizeOptions(JsonFields& fields);

}  // namespace octavo::server
