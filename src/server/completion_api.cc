#include "server/completion_api.h"

#include <memory>
#include <string>
#include <utility>

#include "server/completion_answer.h"
#include "server/completion_call.h"
#include "server/generation_handler.h"

namespace octavo::server {

void AddCompletionApi(Service& service, Router& router) {
  const LimitOptions& limits = service.options().limits;
  const AnswerParser parse = [&limits](std::string_view body, const Engine& engine,
                                       AnswerHead head) -> ApiResult<std::unique_ptr<Answer>> {
    ApiResult<CompletionCall> call = ParseCompletion(body, limits, engine);
    if (!call.ok()) return call.error();
    if (!call->answer.request_id.empty()) head.id = "cmpl-" + call->answer.request_id;
    return std::unique_ptr<Answer>(
        std::make_unique<CompletionAnswer>(engine, *std::move(call), std::move(head)));
  };
  router.Add(Method::kPost, "/v1/completions", Guard::kKey,
             [&service, parse](Exchange& exchange) -> Awaitable<void> {
               return HandleGeneration(service, exchange, "cmpl-", parse);
             });
}

}  // namespace octavo::server
