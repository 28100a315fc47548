#pragma once

// Purpose:    a prompt as /tokenize and the render paths take it: a text, or messages for the chat
//             template.
// Ownership:  plain values.
// Threading:  any thread.
// Invariants: none.

#include <boost/json/object.hpp>
#include <string>
#include <vector>

#include "octavo/engine.h"
#include "server/json_fields.h"
#include "server/server_options.h"

namespace octavo::server {

struct PromptCall {
  std::vector<TokenId> token_ids;
};

// `prompt` with add_special_tokens, or `messages` with what the chat template takes.
ApiResult<PromptCall> ReadPromptCall(const boost::json::object& body, const LimitOptions& limits,
                                     const Engine& engine);

}  // namespace octavo::server
