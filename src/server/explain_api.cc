#include "server/explain_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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

// The block's text: what is cut off of a character at its ends becomes U+FFFD.
std::string TextOf(const Engine& engine, std::span<const TokenId> tokens) {
  std::string bytes;
  for (const TokenId id : tokens) bytes += engine.TokenBytes(id);
  return bytes;
}

void WriteBlocks(const Engine& engine, std::span<const TokenId> tokens,
                 const std::vector<kvcache::BlockExplanation>& blocks, JsonWriter& json) {
  const auto block_size = static_cast<size_t>(engine.model_info().block_size);
  const int64_t now_ms = engine::ExplanationClockMs();
  json.BeginArray();
  for (size_t i = 0; i < blocks.size(); ++i) {
    const size_t first = i * block_size;
    const auto in_block = tokens.subspan(first, std::min(block_size, tokens.size() - first));
    json.BeginObject()
        .Member("index", static_cast<int64_t>(i))
        .Member("first_position", static_cast<int64_t>(first))
        .Member("num_tokens", static_cast<int64_t>(in_block.size()));
    WriteBlockMembers(blocks[i], now_ms, json);
    json.Member("text", TextOf(engine, in_block)).EndObject();
  }
  json.EndArray();
}

// What is asked for, of a request's body.
struct Question {
  std::vector<TokenId> prompt_token_ids;
  std::string cache_salt;
};

// Asks the engine, and waits until it answers: for the end of a step.
std::string Explain(const std::string& model_name, Engine& engine, const Question& question) {
  const std::vector<TokenId>& ids = question.prompt_token_ids;
  const std::vector<kvcache::BlockExplanation> blocks = engine.Explain(ids, question.cache_salt);
  JsonWriter json;
  json.BeginObject().Member("model", model_name).Key("prompt_token_ids");
  WriteTokenIds(ids, json);
  json.Key("explanation")
      .BeginObject()
      .Member("block_size", int64_t{engine.model_info().block_size})
      .Member("num_cached_tokens", engine::Summarize(blocks).num_cached_tokens);
  json.Key("blocks");
  WriteBlocks(engine, ids, blocks, json);
  json.EndObject().EndObject();
  return json.Take();
}

// parse(body, limits, engine) is an ApiResult<ApiCall> of one prompt. On a worker.
template <auto parse>
ApiResult<Question> ReadQuestion(const Service& service, std::string_view body) {
  const Engine& engine = *service.engine();
  ApiResult<ApiCall> call = parse(body, service.options().limits, engine);
  if (!call.ok()) return call.error();
  if (const auto error = service.CheckModel(call->model)) return *error;
  if (const auto error = CheckRequests(*call, engine)) return *error;
  Request& request = call->requests.front();
  return Question{std::move(request.prompt_token_ids), std::move(request.cache_salt)};
}

template <auto parse>
Awaitable<void> HandleExplain(Service& service, Exchange& exchange) {
  const ApiResult<Service::Place> place = service.TakePlace();
  if (!place.ok()) {
    co_await exchange.Send(place.error().Response());
    co_return;
  }
  auto read = [&] { return ReadQuestion<parse>(service, exchange.request().body); };
  ApiResult<Question> question = co_await Offload(service.workers(), read);
  exchange.ReleaseBody();
  if (!question.ok()) {
    co_await exchange.Send(question.error().Response());
    co_return;
  }
  question->cache_salt = SaltWithin(exchange.key_salt(), std::move(question->cache_salt));
  auto ask = [&] { return Explain(service.model_name(), *service.engine(), *question); };
  std::optional<std::string> answer = co_await service.client_questions().Put(exchange, ask);
  if (!answer) co_return;
  HttpResponse response;
  response.body = *std::move(answer);
  co_await exchange.Send(std::move(response));
}

}  // namespace

void AddExplainApi(Service& service, Router& router) {
  router.Add(Method::kPost, "/v1/completions/explain", Guard::kKey, [&service](Exchange& exchange) {
    return HandleExplain<ParseCompletionPrompt>(service, exchange);
  });
  router.Add(
      Method::kPost, "/v1/chat/completions/explain", Guard::kKey,
      [&service](Exchange& exchange) { return HandleExplain<ParseChatPrompt>(service, exchange); });
}

}  // namespace octavo::server
