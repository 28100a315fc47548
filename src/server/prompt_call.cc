#include "server/prompt_call.h"

#include <utility>

#include "server/chat_input.h"
#include "server/completion_call.h"
#include "server/tool_calls.h"

namespace octavo::server {

ApiResult<PromptCall> ReadPromptCall(const boost::json::object& body, const LimitOptions& limits,
                                     const Engine& engine) {
  JsonFields fields(body);
  PromptCall call;
  const TokenizeOptions options = ReadTokenizeOptions(fields);
  const std::optional<std::string> text = fields.String("prompt", limits.max_body_bytes);
  if (fields.Find("messages") != nullptr) {
    ChatInput input;
    ReadChatInput(fields, &input);
    ToolOptions tools;
    ReadToolFields(fields, &tools);
    if (!fields.ok()) return fields.error();
    ApiResult<ChatPrompt> prompt = ApplyTemplate(engine, input);
    if (!prompt.ok()) return prompt.error();
    call.token_ids = std::move(prompt->token_ids);
    return call;
  }
  if (!text) fields.Fail("prompt", "a text, unless there are messages");
  if (!fields.ok()) return fields.error();
  Result<std::vector<TokenId>> ids = engine.Tokenize(*text, options);
  if (!ids.ok()) return FromStatus(ids.status());
  call.token_ids = *std::move(ids);
  return call;
}

}  // namespace octavo::server
