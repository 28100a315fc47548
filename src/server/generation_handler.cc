#include "server/generation_handler.h"

#include <fmt/format.h>

#include <ctime>
#include <utility>
#include <vector>

#include "server/access.h"
#include "server/answer_parts.h"
#include "server/sse.h"

namespace octavo::server {
namespace {

ApiError Timeout(const Service& service) {
  ApiError error;
  error.status = 504;
  error.code = "request_timeout";
  error.message = fmt::format("the request took longer than {} ms",
                              service.options().limits.request_timeout.count());
  return error;
}

// An output that is no answer.
std::optional<ApiError> ErrorOf(const std::vector<RequestOutput>& outputs) {
  for (const RequestOutput& output : outputs) {
    for (const CompletionOutput& completion : output.outputs) {
      if (completion.finish_reason != FinishReason::kError) continue;
      ApiError error;
      error.status = 500;
      error.code = "generation_failed";
      error.message =
          "no token could be chosen: the model's logits are not finite, or the request allows "
          "none here, or what its output must match takes too long to match (with n outputs, each "
          "has 1/n of the time)";
      return error;
    }
  }
  return std::nullopt;
}

class GenerationCall {
 public:
  GenerationCall(Service& service, Exchange& exchange, Answer& answer)
      : service_(service), exchange_(exchange), answer_(answer), generation_(service, exchange) {}

  Awaitable<void> Run() {
    const bool stream = answer_.call().answer.stream;
    std::vector<Request> requests = std::move(answer_.call().requests);
    for (Request& request : requests) {
      request.cache_salt = SaltWithin(exchange_.key_salt(), std::move(request.cache_salt));
    }
    const std::vector<RequestShape> shapes = ShapesOf(requests);
    if (const std::optional<ApiError> error = co_await generation_.Start(std::move(requests))) {
      co_await exchange_.Send(error->Response());
      co_return;
    }
    if (stream) {
      co_await RunStream();
    } else {
      co_await RunWhole();
    }
    if (outputs_.empty()) {
      service_.metrics().RecordAborted();
    } else {
      Account();
      service_.metrics().Record(outputs_, shapes);
    }
  }

 private:
  Awaitable<void> RunWhole() {
    while (true) {
      const std::vector<Generation::Piece> pieces = co_await generation_.Next();
      if (pieces.empty()) break;
    }
    if (generation_.timed_out()) {
      co_await exchange_.Send(Timeout(service_).Response());
      co_return;
    }
    if (generation_.client_has_left()) {
      exchange_.account().status = 499;
      co_return;
    }
    outputs_ = generation_.TakeOutputs();
    if (const std::optional<ApiError> error = ErrorOf(outputs_)) {
      co_await exchange_.Send(error->Response());
      co_return;
    }
    HttpResponse response;
    auto make = [this] { return answer_.Whole(outputs_); };  // may be long
    response.body = co_await Offload(service_.workers(), make);
    co_await exchange_.Send(std::move(response));
  }

  Awaitable<void> RunStream() {
    // The head waits for the first piece: until then a client that has left can be told from one
    // that only listens (ClientWatch), and running out of time has a status of its own.
    std::vector<Generation::Piece> pieces = co_await generation_.Next();
    if (pieces.empty() && generation_.timed_out()) {
      co_await exchange_.Send(Timeout(service_).Response());
      co_return;
    }
    bool is_there = !generation_.client_has_left();
    if (is_there) is_there = co_await exchange_.BeginStream(StreamHead());
    while (is_there && !pieces.empty()) {
      is_there = co_await exchange_.Write(answer_.Events(pieces));
      if (is_there) pieces = co_await generation_.Next();
    }
    if (!is_there || generation_.client_has_left()) {
      exchange_.account().status = 499;
      co_return;
    }
    std::string last;
    if (generation_.timed_out()) {
      AppendEvent(Timeout(service_).Json(), &last);
      last += kStreamEnd;
    } else {
      outputs_ = generation_.TakeOutputs();
      if (const std::optional<ApiError> error = ErrorOf(outputs_)) {
        AppendEvent(error->Json(), &last);
        last += kStreamEnd;
      } else {
        last = answer_.LastEvents(outputs_);
      }
    }
    if (co_await exchange_.Write(last)) co_await exchange_.EndStream();
  }

  void Account() {
    Usage usage;
    for (const RequestOutput& output : outputs_) usage.Add(output);
    exchange_.account().num_prompt_tokens = usage.num_prompt_tokens;
    exchange_.account().num_cached_tokens = usage.num_cached_tokens;
    exchange_.account().num_generation_tokens = usage.num_generation_tokens;
  }

  Service& service_;
  Exchange& exchange_;
  Answer& answer_;
  Generation generation_;
  std::vector<RequestOutput> outputs_;  // empty: it was cut off
};

}  // namespace

Awaitable<void> HandleGeneration(Service& service, Exchange& exchange, std::string id_prefix,
                                 const AnswerParser& parse) {
  ApiResult<Service::Place> place = service.TakePlace();
  if (!place.ok()) {
    co_await exchange.Send(place.error().Response());
    co_return;
  }
  const Engine& engine = *service.engine();
  AnswerHead head{id_prefix + exchange.request().id, service.model_name(),
                  static_cast<int64_t>(std::time(nullptr))};
  auto work = [&] { return parse(exchange.request().body, engine, std::move(head)); };
  ApiResult<std::unique_ptr<Answer>> answer = co_await Offload(service.workers(), work);
  if (!answer.ok()) {
    co_await exchange.Send(answer.error().Response());
    co_return;
  }
  exchange.ReleaseBody();
  AnswerOptions& options = (*answer)->call().answer;
  // In streams they come with the usage: a chunk that nobody asked for has no choices to read.
  if (!options.stream || options.include_usage) {
    options.include_metrics |= service.options().reports.enable_request_metrics;
  }
  if (const std::optional<ApiError> error = service.CheckModel((*answer)->call().model)) {
    co_await exchange.Send(error->Response());
    co_return;
  }
  GenerationCall call(service, exchange, **answer);
  co_await call.Run();
}

}  // namespace octavo::server
