#include "server/router.h"

#include <fmt/format.h>

#include <utility>

#include "server/api_error.h"

namespace octavo::server {
namespace {

std::string_view NameOf(Method method) { return method == Method::kPost ? "POST" : "GET"; }

bool Matches(const Route& route, Method method) {
  return route.method == method || (route.method == Method::kGet && method == Method::kHead);
}

}  // namespace

void Router::Add(Method method, std::string path, Guard guard, Handler handler) {
  routes_.push_back({method, std::move(path), guard, std::move(handler)});
}

Awaitable<void> Router::Dispatch(Exchange& exchange) const {
  const HttpRequest& request = exchange.request();
  if (request.method == Method::kOptions) {
    HttpResponse response;
    response.status = 204;
    response.headers = access_.PreflightHeaders(request);
    co_await exchange.Send(std::move(response));
    co_return;
  }
  for (const Route& route : routes_) {
    if (route.path != request.path || !Matches(route, request.method)) continue;
    if (const std::optional<ApiError> error = access_.Check(route.guard, &exchange)) {
      co_await exchange.Send(error->Response());
      co_return;
    }
    if (const std::optional<ApiError> error = access_.CheckOrigin(request)) {
      co_await exchange.Send(error->Response());
      co_return;
    }
    co_await route.handler(exchange);
    co_return;
  }
  co_await Refuse(exchange);
}

// No route is taken. Without a key nobody learns which paths there are.
Awaitable<void> Router::Refuse(Exchange& exchange) const {
  if (const std::optional<ApiError> error = access_.Check(Guard::kKey, &exchange)) {
    co_await exchange.Send(error->Response());
    co_return;
  }
  const HttpRequest& request = exchange.request();
  std::string allowed;
  for (const Route& route : routes_) {
    if (route.path != request.path) continue;
    allowed += (allowed.empty() ? "" : ", ") + std::string(NameOf(route.method));
    if (route.method == Method::kGet) allowed += ", HEAD";
  }
  ApiError error = NotFound("unknown_url", fmt::format("there is no {}", request.path));
  if (!allowed.empty()) {
    error.status = 405;
    error.code = "method_not_allowed";
    error.message = fmt::format("{} takes {}, not {}", request.path, allowed, request.method_name);
  }
  HttpResponse response = error.Response();
  if (!allowed.empty()) response.headers.emplace_back("Allow", allowed);
  co_await exchange.Send(std::move(response));
}

}  // namespace octavo::server
