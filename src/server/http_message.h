#pragma once

// Purpose:    a request as the handlers see it, and their answer: HTTP without its wire.
// Ownership:  plain values.
// Threading:  plain data.
// Invariants: header names are lower case; the path is decoded and has no query.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace octavo::server {

using Headers = std::vector<std::pair<std::string, std::string>>;

enum class Method { kGet, kHead, kPost, kOptions, kOther };

struct HttpRequest {
  Method method = Method::kGet;
  std::string method_name;  // as sent
  std::string path;
  std::vector<std::pair<std::string, std::string>> query;
  Headers headers;
  std::string body;
  std::string remote;     // address:port
  bool is_local = false;  // from the loopback interface
  std::string id;         // x-request-id as sent, or one that was drawn

  // The first header with this (lower case) name; empty if there is none.
  std::string_view Header(std::string_view name) const;
  size_t CountHeader(std::string_view name) const;
  // A parameter of the query; empty if there is none.
  std::string_view Query(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  Headers headers;
  std::string body;
};

// "OK" for 200 and so on.
std::string_view ReasonPhrase(int status);

}  // namespace octavo::server
