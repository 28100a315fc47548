#pragma once

// Purpose:    which handler serves which path, and who may call it.
// Ownership:  owns the handlers; borrows the access rules.
// Threading:  built before the server starts, then immutable; Dispatch on the I/O thread.
// Invariants: a path that is not listed is 404, a method that is not listed for it 405 with Allow.
//             A handler runs only after its rule has let the request in.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "server/access.h"
#include "server/exchange.h"

namespace octavo::server {

using Handler = std::function<Awaitable<void>(Exchange&)>;

struct Route {
  Method method = Method::kGet;
  std::string path;  // ends with "{name}" for any rest of a path
  Guard guard = Guard::kKey;
  Handler handler;
};

class Router {
 public:
  explicit Router(const Access& access) : access_(access) {}

  void Add(Method method, std::string path, Guard guard, Handler handler);
  // Why a request is refused by its head alone: before its body is read.
  std::optional<ApiError> CheckHead(const HttpRequest& request) const;
  Awaitable<void> Dispatch(Exchange& exchange) const;

  const std::vector<Route>& routes() const { return routes_; }

 private:
  const Route* Find(const HttpRequest& request) const;  // null: there is none
  Awaitable<void> Refuse(Exchange& exchange) const;

  const Access& access_;
  std::vector<Route> routes_;
};

}  // namespace octavo::server
