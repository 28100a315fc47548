#include "server/explain_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/explanation_text.h"
#include "server/access.h"
#include "server/answer_parts.h"
#include "server/chat_call.h"
#include "server/completion_call.h"
#include "server/json_writer.h"

namespace octavo::server {
namespace {

ApiResult<ApiCall> ParseCompletionPrompt(std::string_view body, const LimitOptions& limits,
                                         const Engine& engine) {
  ApiResult<CompletionCall> call = ParseCompletion(body, limits, engine);
  if (!call.ok()) return call.error();
  if (call->requests.size() != 1) {
    return InvalidField("prompt", fmt::format("prompt is a batch of {}, but one prompt is "
                                              "explained at a time",
                                              call->requests.size()));
  }
  return ApiCall(*std::move(call));
}

ApiResult<ApiCall> ParseChatPrompt(std::string_view body, const LimitOptions& limits,
                                   const Engine& engine) {
  ApiResult<ChatCall> call = ParseChat(body, limits, engine);
  if (!call.ok()) return call.error();
  return ApiCall(*std::move(call));
}

void WriteBlocks(const std::vector<kvcache::BlockExplanation>& blocks, int64_t num_prompt_tokens,
                 int64_t block_size, JsonWriter& json) {
  const int64_t now_ms = engine::ExplanationClockMs();
  json.BeginArray();
  for (size_t i = 0; i < blocks.size(); ++i) {
    const int64_t first = static_cast<int64_t>(i) * block_size;
    json.BeginObject()
        .Member("index", static_cast<int64_t>(i))
        .Member("first_position", first)
        .Member("num_tokens", std::min(block_size, num_prompt_tokens - first));
    WriteBlockMembers(blocks[i], now_ms, json);
    json.EndObject();
  }
  json.EndArray();
}

// Asks the engine, and waits until it answers: for the end of a step.
std::string ExplainRequest(const std::string& model_name, Engine& engine, const Request& request) {
  const std::vector<TokenId>& ids = request.prompt_token_ids;
  const std::vector<kvcache::BlockExplanation> blocks = engine.Explain(ids, request.cache_salt);
  const int64_t block_size = engine.model_info().block_size;
  JsonWriter json;
  json.BeginObject().Member("model", model_name).Key("prompt_token_ids");
  WriteTokenIds(ids, json);
  json.Key("token_strs").BeginArray();
  for (const TokenId id : ids) json.String(engine.TokenBytes(id));
  json.EndArray();
  json.Key("explanation")
      .BeginObject()
      .Member("block_size", block_size)
      .Member("num_cached_tokens", engine::Summarize(blocks).num_cached_tokens);
  json.Key("blocks");
  WriteBlocks(blocks, static_cast<int64_t>(ids.size()), block_size, json);
  json.EndObject().EndObject();
  return json.Take();
}

// parse(body, limits, engine) is an ApiResult<ApiCall> of one prompt.
template <auto parse>
Awaitable<void> Explain(Service& service, Exchange& exchange) {
  const ApiResult<Service::Place> place = service.TakePlace();
  if (!place.ok()) {
    co_await exchange.Send(place.error().Response());
    co_return;
  }
  Engine& engine = *service.engine();
  auto read = [&] { return parse(exchange.request().body, service.options().limits, engine); };
  ApiResult<ApiCall> call = co_await Offload(service.workers(), read);
  exchange.ReleaseBody();
  std::optional<ApiError> error;
  if (!call.ok()) {
    error = call.error();
  } else {
    error = service.CheckModel(call->model);
  }
  if (error) {
    co_await exchange.Send(error->Response());
    co_return;
  }
  Request& request = call->requests.front();
  request.cache_salt = SaltWithin(exchange.key_salt(), std::move(request.cache_salt));
  auto ask = [&] { return ExplainRequest(service.model_name(), engine, request); };
  HttpResponse response;
  response.body = co_await Offload(service.slow_workers(), ask);
  co_await exchange.Send(std::move(response));
}

}  // namespace

void AddExplainApi(Service& service, Router& router) {
  const auto add = [&](const char* path, Awaitable<void> (*handler)(Service&, Exchange&)) {
    router.Add(Method::kPost, path, Guard::kKey,
               [&service, handler](Exchange& exchange) { return handler(service, exchange); });
  };
  add("/v1/completions/explain", Explain<ParseCompletionPrompt>);
  add("/v1/chat/completions/explain", Explain<ParseChatPrompt>);
}

}  // namespace octavo::server
