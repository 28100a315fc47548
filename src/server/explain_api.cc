#include "server/explain_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/explanation_text.h"
#include "server/access.h"
#include "server/answer_parts.h"
#include "server/chat_call.h"
#include "server/completion_call.h"
#include "server/json_writer.h"
#include "server/waiting_room.h"

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

// Asks the engine, and waits until it answers: for the end of a step.
std::string ExplainRequest(const std::string& model_name, Engine& engine, const Request& request) {
  const std::vector<TokenId>& ids = request.prompt_token_ids;
  const std::vector<kvcache::BlockExplanation> blocks = engine.Explain(ids, request.cache_salt);
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

// How many questions may wait; after each step some are answered.
constexpr int kMaxQuestions = 16;

// What a question holds until it is answered or its client has left.
class Question {
 public:
  explicit Question(Service::Place place) : place_(std::move(place)) {}

  void Wait(WaitingRoom::Place place) { waiting_.emplace(std::move(place)); }
  void EndWaiting() { waiting_.reset(); }
  void Leave() {
    has_left_ = true;
    waiting_.reset();
    place_.reset();
  }
  bool has_left() const { return has_left_; }  // any thread

 private:
  std::optional<Service::Place> place_;
  std::optional<WaitingRoom::Place> waiting_;
  std::atomic<bool> has_left_ = false;
};

// Shared by the two paths; the I/O thread's.
class Explainer {
 public:
  explicit Explainer(Service& service) : service_(service) {}

  // parse(body, limits, engine) is an ApiResult<ApiCall> of one prompt.
  template <auto parse>
  Awaitable<void> Handle(Exchange& exchange) {
    ApiResult<Service::Place> place = service_.TakePlace();
    if (!place.ok()) {
      co_await exchange.Send(place.error().Response());
      co_return;
    }
    const auto question = std::make_shared<Question>(*std::move(place));
    auto read = [&] { return Read<parse>(exchange.request().body); };
    ApiResult<ApiCall> call = co_await Offload(service_.workers(), read);
    exchange.ReleaseBody();
    if (const auto error = call.ok() ? TakeWaitingPlace(*question) : call.error()) {
      co_await exchange.Send(error->Response());
      co_return;
    }
    co_await Answer(exchange, call->requests.front(), question);
  }

 private:
  // On a worker.
  template <auto parse>
  ApiResult<ApiCall> Read(std::string_view body) const {
    const Engine& engine = *service_.engine();
    ApiResult<ApiCall> call = parse(body, service_.options().limits, engine);
    if (!call.ok()) return call;
    if (const auto error = service_.CheckModel(call->model)) return *error;
    if (const auto error = CheckRequests(*call, engine)) return *error;
    return call;
  }

  std::optional<ApiError> TakeWaitingPlace(Question& question) {
    ApiResult<WaitingRoom::Place> place = room_.Enter();
    if (!place.ok()) return place.error();
    question.Wait(*std::move(place));
    return std::nullopt;
  }

  Awaitable<void> Answer(Exchange& exchange, Request& request,
                         const std::shared_ptr<Question>& question) {
    request.cache_salt = SaltWithin(exchange.key_salt(), std::move(request.cache_salt));
    exchange.WatchClient([question] { question->Leave(); });
    auto ask = [&] {
      if (question->has_left()) return std::string();
      return ExplainRequest(service_.model_name(), *service_.engine(), request);
    };
    HttpResponse response;
    response.body = co_await Offload(service_.question_workers(), ask);
    question->EndWaiting();  // not while the answer is sent: clients may be slow
    if (question->has_left()) {
      exchange.account().status = 499;
      co_return;
    }
    co_await exchange.Send(std::move(response));
  }

  Service& service_;
  WaitingRoom room_{kMaxQuestions, "prompts wait to be explained"};
};

}  // namespace

void AddExplainApi(Service& service, Router& router) {
  const auto explainer = std::make_shared<Explainer>(service);
  router.Add(Method::kPost, "/v1/completions/explain", Guard::kKey,
             [explainer](Exchange& exchange) {
               return explainer->Handle<ParseCompletionPrompt>(exchange);
             });
  router.Add(
      Method::kPost, "/v1/chat/completions/explain", Guard::kKey,
      [explainer](Exchange& exchange) { return explainer->Handle<ParseChatPrompt>(exchange); });
}

}  // namespace octavo::server
