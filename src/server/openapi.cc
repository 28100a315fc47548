#include "server/openapi.h"

#include <string>
#include <utility>

#include "server/openapi_json.h"  // made of openapi.json by the build

namespace octavo::server {

std::string_view OpenApiDocument() { return kOpenApiJson; }

void AddOpenApi(Service&, Router& router) {
  router.Add(Method::kGet, "/openapi.json", Guard::kKey, [](Exchange& exchange) -> Awaitable<void> {
    HttpResponse response;
    response.body = std::string(OpenApiDocument());
    co_await exchange.Send(std::move(response));
  });
}

}  // namespace octavo::server
