#include "server/body_handler.h"

#include <utility>

namespace octavo::server {
namespace {

Awaitable<void> HandleBody(Service& service, Exchange& exchange, const BodyWork& work) {
  const ApiResult<Service::Place> place = service.TakePlace();
  if (!place.ok()) {
    co_await exchange.Send(place.error().Response());
    co_return;
  }
  const Engine& engine = *service.engine();
  auto make = [&] { return work(exchange.request().body, engine); };
  ApiResult<std::string> body = co_await Offload(service.workers(), make);
  exchange.ReleaseBody();
  if (!body.ok()) {
    co_await exchange.Send(body.error().Response());
    co_return;
  }
  HttpResponse response;
  response.body = *std::move(body);
  co_await exchange.Send(std::move(response));
}

}  // namespace

void AddBodyHandler(Service& service, Router& router, std::string path, BodyWork work) {
  router.Add(Method::kPost, std::move(path), Guard::kKey,
             [&service, work = std::move(work)](Exchange& exchange) -> Awaitable<void> {
               return HandleBody(service, exchange, work);
             });
}

}  // namespace octavo::server
