#include "server/chat_api.h"

#include <memory>
#include <string>
#include <utility>

#include "server/chat_answer.h"
#include "server/chat_call.h"
#include "server/generation_handler.h"

namespace octavo::server {

void AddChatApi(Service& service, Router& router) {
  const LimitOptions& limits = service.options().limits;
  const AnswerParser parse = [&limits](std::string_view body, const Engine& engine,
                                       AnswerHead head) -> ApiResult<std::unique_ptr<Answer>> {
    ApiResult<ChatCall> call = ParseChat(body, limits, engine);
    if (!call.ok()) return call.error();
    if (!call->answer.request_id.empty()) head.id = "chatcmpl-" + call->answer.request_id;
    return std::unique_ptr<Answer>(
        std::make_unique<ChatAnswer>(engine, *std::move(call), std::move(head)));
  };
  router.Add(Method::kPost, "/v1/chat/completions", Guard::kKey,
             [&service, parse](Exchange& exchange) -> Awaitable<void> {
               return HandleGeneration(service, exchange, "chatcmpl-", parse);
             });
}

}  // namespace octavo::server
