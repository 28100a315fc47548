#include "server/router.h"

#include <fmt/format.h>

#include <utility>

#include "server/api_error.h"

namespace octavo::server {
namespace {

std::string_view NameOf(Method method) { return method == Method::kPost ? "POST" : "GET"; }

bool Leads(const Route& route, std::string_view path) {
  const size_t rest = route.path.find('{');
  if (rest == std::string::npos) return route.path == path;
  return path.size() > rest && path.starts_with(std::string_view(route.path).substr(0, rest));
}

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
  if (const std::optional<ApiError> error = CheckHead(request)) {
    co_await exchange.Send(error->Response());
    co_return;
  }
  const Route* route = Find(request);
  if (route == nullptr) {
    co_await Refuse(exchange);
    co_return;
  }
  exchange.set_key_salt(access_.KeySalt(request));
  co_await route->handler(exchange);
}

// Without a key nobody learns which paths there are.
std::optional<ApiError> Router::CheckHead(const HttpRequest& request) const {
  if (request.method == Method::kOptions) return std::nullopt;
  const Route* route = Find(request);
  const Guard guard = route == nullptr ? Guard::kKey : route->guard;
  if (std::optional<ApiError> error = access_.Check(guard, request)) return error;
  return route == nullptr ? std::nullopt : access_.CheckOrigin(request);
}

const Route* Router::Find(const HttpRequest& request) const {
  for (const Route& route : routes_) {
    if (Leads(route, request.path) && Matches(route, request.method)) return &route;
  }
  return nullptr;
}

// No route is taken.
Awaitable<void> Router::Refuse(Exchange& exchange) const {
  const HttpRequest& request = exchange.request();
  std::string allowed;
  for (const Route& route : routes_) {
    if (!Leads(route, request.path)) continue;
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
