#pragma once

// Purpose:    the body of /v1/chat/completions.
// Ownership:  plain values.
// Threading:  any thread: a worker parses and renders.
// Invariants: there is one request, whose prompt fits the context.

#include <string_view>

#include "octavo/engine.h"
#include "server/api_call.h"
#include "server/server_options.h"
#include "server/tool_calls.h"

namespace octavo::server {

struct ChatCall : ApiCall {
  ToolOptions tools;
};

ApiResult<ChatCall> ParseChat(std::string_view body, const LimitOptions& limits,
                              const Engine& engine);

}  // namespace octavo::server
