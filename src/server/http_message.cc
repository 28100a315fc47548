#include "server/http_message.h"

#include <algorithm>
#include <boost/beast/http/status.hpp>
#include <ostream>

namespace octavo::server {
namespace {

std::string_view Find(const Headers& pairs, std::string_view name) {
  const auto found = std::ranges::find_if(pairs, [&](const auto& p) { return p.first == name; });
  return found == pairs.end() ? std::string_view() : std::string_view(found->second);
}

}  // namespace

std::string_view HttpRequest::Header(std::string_view name) const { return Find(headers, name); }

size_t HttpRequest::CountHeader(std::string_view name) const {
  return static_cast<size_t>(
      std::ranges::count_if(headers, [&](const auto& p) { return p.first == name; }));
}

std::string_view HttpRequest::Query(std::string_view name) const { return Find(query, name); }

std::string_view ReasonPhrase(int status) {
  return boost::beast::http::obsolete_reason(static_cast<boost::beast::http::status>(status));
}

}  // namespace octavo::server
