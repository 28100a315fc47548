#include "server/render_api.h"

#include <string>

#include "server/answer_parts.h"
#include "server/body_handler.h"
#include "server/chat_call.h"
#include "server/completion_call.h"
#include "server/json_writer.h"

namespace octavo::server {
namespace {

void WriteRequest(const Service& service, const Engine& engine, const Request& request,
                  JsonWriter& json) {
  json.BeginObject().Member("model", service.model_name()).Key("token_ids");
  WriteTokenIds(request.prompt_token_ids, json);
  json.Member("count", static_cast<int64_t>(request.prompt_token_ids.size()))
      .Member("max_model_len", int64_t{engine.model_info().max_model_len});
  if (const Result<std::string> text = engine.Detokenize(request.prompt_token_ids, false);
      text.ok()) {
    json.Member("prompt", *text);
  }
  json.EndObject();
}

}  // namespace

void AddRenderApi(Service& service, Router& router) {
  const LimitOptions& limits = service.options().limits;
  AddBodyHandler(
      service, router, "/v1/completions/render",
      [&service, &limits](std::string_view body, const Engine& engine) -> ApiResult<std::string> {
        const ApiResult<CompletionCall> call = ParseCompletion(body, limits, engine);
        if (!call.ok()) return call.error();
        if (const auto error = service.CheckModel(call->model)) return *error;
        if (const auto error = CheckRequests(*call, engine)) return *error;
        JsonWriter json;
        json.BeginArray();
        for (const Request& request : call->requests) {
          WriteRequest(service, engine, request, json);
        }
        json.EndArray();
        return json.Take();
      });
  AddBodyHandler(
      service, router, "/v1/chat/completions/render",
      [&service, &limits](std::string_view body, const Engine& engine) -> ApiResult<std::string> {
        const ApiResult<ChatCall> call = ParseChat(body, limits, engine);
        if (!call.ok()) return call.error();
        if (const auto error = service.CheckModel(call->model)) return *error;
        if (const auto error = CheckRequests(*call, engine)) return *error;
        JsonWriter json;
        WriteRequest(service, engine, call->requests.front(), json);
        return json.Take();
      });
}

}  // namespace octavo::server
