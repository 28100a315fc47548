// The API's description and the API are the same.

#include "server/routes.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <set>
#include <string>

#include "server/openapi.h"

namespace octavo::server {
namespace {

TEST(RoutesTest, TheDescriptionListsEveryPathAndNoOther) {
  const ServerOptions options;
  Service service(options, "1");
  const Access access(options.access);
  Router router(access);
  AddRoutes(service, router);
  std::set<std::string> served;
  for (const Route& route : router.routes()) {
    served.insert((route.method == Method::kPost ? "post " : "get ") + route.path);
  }

  const boost::json::value document = boost::json::parse(OpenApiDocument());
  std::set<std::string> described;
  for (const auto& [path, methods] : document.at("paths").as_object()) {
    for (const auto& [method, operation] : methods.as_object()) {
      described.insert(std::string(method) + " " + std::string(path));
    }
  }
  EXPECT_EQ(served, described);
}

// What everybody may call without a key is a decision, not an accident.
TEST(RoutesTest, OnlyHealthVersionAndMetricsAreOpen) {
  const ServerOptions options;
  Service service(options, "1");
  const Access access(options.access);
  Router router(access);
  AddRoutes(service, router);
  std::set<std::string> open;
  for (const Route& route : router.routes()) {
    if (route.guard == Guard::kOpen) open.insert(route.path);
  }
  EXPECT_EQ(open, (std::set<std::string>{"/health", "/ready", "/version", "/metrics"}));
}

}  // namespace
}  // namespace octavo::server
