// Who may call what, by the headers of a request.

#include "server/access.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace octavo::server {
namespace {

HttpRequest With(std::vector<std::string> authorizations, bool is_local = false) {
  HttpRequest request;
  request.is_local = is_local;
  for (std::string& value : authorizations) {
    request.headers.emplace_back("authorization", std::move(value));
  }
  return request;
}

int StatusOf(const Access& access, Guard guard, const HttpRequest& request) {
  const std::optional<ApiError> error = access.Check(guard, request);
  return error ? error->status : 200;
}

TEST(AccessTest, OnlyTheExactKeyOpens) {
  AccessOptions options;
  options.api_keys = {"k1", "second"};
  const Access access(options);
  EXPECT_EQ(StatusOf(access, Guard::kKey, With({"Bearer k1"})), 200);
  EXPECT_EQ(StatusOf(access, Guard::kKey, With({"Bearer second"})), 200);
  for (const std::string value :
       {"Bearer", "Bearer ", "bearer k1", "Bearer  k1", "Bearer k1 ", "Bearer k", "Bearer k11",
        "Basic k1", "k1", "Bearer K1", "Bearer \xff", ""}) {
    EXPECT_EQ(StatusOf(access, Guard::kKey, With({value})), 401) << value;
  }
  EXPECT_EQ(StatusOf(access, Guard::kKey, With({})), 401);
  EXPECT_EQ(StatusOf(access, Guard::kKey, With({"Bearer k1", "Bearer k1"})), 401);
  EXPECT_EQ(StatusOf(access, Guard::kOpen, With({})), 200);
}

TEST(AccessTest, EveryRefusalReadsTheSame) {
  AccessOptions options;
  options.api_keys = {"key"};
  const Access access(options);
  EXPECT_EQ(access.Check(Guard::kKey, With({}))->Json(),
            access.Check(Guard::kKey, With({"Bearer ke"}))->Json());
}

TEST(AccessTest, WhatConcernsAllNeedsTheAdminKey) {
  AccessOptions options;
  options.api_keys = {"key"};
  EXPECT_EQ(StatusOf(Access(options), Guard::kAdmin, With({"Bearer key"}, true)), 403);
  options.admin_key = "admin";
  const Access access(options);
  EXPECT_EQ(StatusOf(access, Guard::kAdmin, With({"Bearer admin"})), 200);
  EXPECT_EQ(StatusOf(access, Guard::kAdmin, With({"Bearer key"})), 403);
  EXPECT_EQ(StatusOf(access, Guard::kAdmin, With({})), 401);
  EXPECT_EQ(StatusOf(access, Guard::kKey, With({"Bearer admin"})), 200);
}

TEST(AccessTest, WithoutAnyKeyThisMachineAloneIsTheAdmin) {
  const Access access(AccessOptions{});
  EXPECT_EQ(StatusOf(access, Guard::kKey, With({})), 200);
  EXPECT_EQ(StatusOf(access, Guard::kAdmin, With({}, /*is_local=*/true)), 200);
  EXPECT_EQ(StatusOf(access, Guard::kAdmin, With({}, /*is_local=*/false)), 403);
}

TEST(AccessTest, EachKeyHasASaltOfItsOwnThatIsNotTheKey) {
  AccessOptions options;
  options.api_keys = {"one", "two"};
  const auto salt = [&options](const std::string& key) {
    return Access(options).KeySalt(With({"Bearer " + key}));
  };
  EXPECT_NE(salt("one"), salt("two"));
  EXPECT_EQ(salt("one"), salt("one"));
  EXPECT_EQ(salt("one").find("one"), std::string::npos);
  options.salt_by_key = false;
  EXPECT_EQ(salt("one"), "");
}

TEST(AccessTest, OtherOriginsAreLetInByNameOnly) {
  HttpRequest request;
  request.headers.emplace_back("origin", "https://a.example");
  AccessOptions options;
  EXPECT_TRUE(Access(options).CorsHeaders(request).empty());
  EXPECT_TRUE(Access(options).PreflightHeaders(request).empty());
  options.allowed_origins = {"https://b.example"};
  EXPECT_TRUE(Access(options).CorsHeaders(request).empty());
  options.allowed_origins = {"https://a.example"};
  EXPECT_EQ(Access(options).CorsHeaders(request).front().second, "https://a.example");
  options.allowed_origins = {"*"};
  EXPECT_EQ(Access(options).CorsHeaders(request).front().second, "*");
}

TEST(AccessTest, APageOfAnotherOriginMayNotCallEvenWithoutAsking) {
  HttpRequest request;
  request.headers.emplace_back("host", "127.0.0.1:8000");
  AccessOptions options;
  EXPECT_FALSE(Access(options).CheckOrigin(request));  // no browser
  request.headers.emplace_back("origin", "https://a.example");
  EXPECT_EQ(Access(options).CheckOrigin(request)->status, 403);
  options.allowed_origins = {"https://a.example"};
  EXPECT_FALSE(Access(options).CheckOrigin(request));
  request.headers.back().second = "http://127.0.0.1:8000";
  EXPECT_FALSE(Access(AccessOptions{}).CheckOrigin(request));  // a page of this server
}

// DNS rebinding: the owner of a domain lets its name lead to this machine.
TEST(AccessTest, APageOfADomainIsNoPageOfThisServerUnlessItHasAKey) {
  const auto refuses = [](const char* host, const AccessOptions& options) {
    HttpRequest request;
    request.headers.emplace_back("host", host);
    request.headers.emplace_back("origin", std::string("http://") + host);
    return Access(options).CheckOrigin(request).has_value();
  };
  AccessOptions options;
  for (const char* host :
       {"127.0.0.1", "192.168.0.7:80", "[::1]:8000", "[::1]", "localhost:8000"}) {
    EXPECT_FALSE(refuses(host, options)) << host;
  }
  for (const char* host :
       {"a.example:8000", "127.0.0.1.a.example", "localhost.a.example", "", "[", ":80"}) {
    EXPECT_TRUE(refuses(host, options)) << host;
  }
  options.api_keys = {"secret"};
  EXPECT_FALSE(refuses("a.example:8000", options));
}

}  // namespace
}  // namespace octavo::server
