#include "server/generation.h"

#include <boost/asio/this_coro.hpp>
#include <utility>

namespace octavo::server {
namespace {

struct Submitted {
  std::vector<std::unique_ptr<RequestStream>> streams;
  std::optional<ApiError> error;
};

Submitted SubmitAll(Engine& engine, std::vector<Request> requests,
                    const std::shared_ptr<SignalFlag>& flag) {
  Submitted submitted;
  for (Request& request : requests) {
    Result<std::unique_ptr<RequestStream>> stream =
        engine.Submit(std::move(request), [flag] { flag->RaiseFrom(); });
    if (!stream.ok()) {
      submitted.streams.clear();
      submitted.error = FromStatus(stream.status());
      return submitted;
    }
    submitted.streams.push_back(*std::move(stream));
  }
  return submitted;
}

}  // namespace

Generation::Generation(Service& service, Exchange& exchange)
    : service_(service),
      exchange_(exchange),
      flag_(std::make_shared<SignalFlag>(exchange.executor())),
      fate_(std::make_shared<Fate>(exchange.executor())) {}

Generation::~Generation() { fate_->deadline.cancel(); }

Awaitable<std::optional<ApiError>> Generation::Start(std::vector<Request> requests) {
  exchange_.WatchClient([fate = fate_, flag = flag_] {
    fate->client_has_left = true;
    flag->Raise();
  });
  fate_->deadline.expires_after(service_.options().limits.request_timeout);
  fate_->deadline.async_wait([fate = fate_, flag = flag_](boost::system::error_code error) {
    if (error) return;
    fate->timed_out = true;
    flag->Raise();
  });
  Engine& engine = *service_.engine();
  auto submit_at_once = [&]() -> std::optional<Submitted> {
    const std::optional<StructuredOutputs>& structured = requests.front().params.structured_outputs;
    if (structured && !engine.IsCompiled(*structured)) return std::nullopt;
    return SubmitAll(engine, std::move(requests), flag_);
  };
  std::optional<Submitted> submitted = co_await Offload(service_.workers(), submit_at_once);
  if (!submitted) {
    // Those who left while others compiled are not compiled for.
    auto compile = [&] {
      return fate_->is_cut_off() ? Submitted() : SubmitAll(engine, std::move(requests), flag_);
    };
    submitted = co_await Offload(service_.compile_workers(), compile);
  }
  streams_ = std::move(submitted->streams);
  co_return std::move(submitted->error);
}

Awaitable<std::vector<Generation::Piece>> Generation::Next() {
  std::vector<Piece> pieces;
  while (!is_cut_off()) {
    // Asked before the pieces are taken: what comes between the two is taken next time.
    const bool is_over = all_have_ended();
    for (size_t i = 0; i < streams_.size(); ++i) {
      while (std::optional<RequestUpdate> update = streams_[i]->TryNext()) {
        pieces.push_back({i, *std::move(update)});
      }
    }
    if (!pieces.empty() || is_over) break;
    co_await flag_->Wait();
  }
  if (is_cut_off()) {
    pieces.clear();
    streams_.clear();  // aborts them
  }
  co_return pieces;
}

bool Generation::all_have_ended() const {
  for (const auto& stream : streams_) {
    if (!stream->has_ended()) return false;
  }
  return true;
}

std::vector<RequestOutput> Generation::TakeOutputs() {
  std::vector<RequestOutput> outputs;
  for (const auto& stream : streams_) outputs.push_back(stream->Finish());
  return outputs;
}

}  // namespace octavo::server
