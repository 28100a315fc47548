#include "server/target.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

namespace octavo::server {
namespace {

// `plus` stands for a space in queries.
std::optional<std::string> Unescape(std::string_view text, bool plus_is_space) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus_is_space) {
      plain += ' ';
    } else if (text[i] != '%') {
      plain += text[i];
    } else {
      unsigned value = 0;
      if (text.size() - i < 3) return std::nullopt;
      const char* end = text.data() + i + 3;
      const auto [stop, error] = std::from_chars(text.data() + i + 1, end, value, 16);
      if (error != std::errc() || stop != end) return std::nullopt;
      plain += static_cast<char>(value);
      i += 2;
    }
  }
  return plain;
}

}  // namespace

bool ParseTarget(std::string_view target, HttpRequest* request) {
  // The absolute form, which clients send to proxies and may send to any server.
  if (target.starts_with("http://") || target.starts_with("https://")) {
    const size_t authority = target.find("//") + 2;
    const size_t end = std::min(target.find_first_of("/?", authority), target.size());
    if (end == authority) return false;
    target.remove_prefix(end);
    if (target.empty()) target = "/";
  }
  const size_t mark = target.find('?');
  const std::optional<std::string> path = Unescape(target.substr(0, mark), false);
  if (!path || !path->starts_with('/')) return false;
  request->path = *path;
  if (mark == std::string_view::npos) return true;

  std::string_view rest = target.substr(mark + 1);
  while (!rest.empty()) {
    const size_t end = rest.find('&');
    const std::string_view pair = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    if (pair.empty()) continue;
    const size_t equals = pair.find('=');
    const std::optional<std::string> name = Unescape(pair.substr(0, equals), true);
    const std::optional<std::string> value = Unescape(
        equals == std::string_view::npos ? std::string_view() : pair.substr(equals + 1), true);
    if (!name || !value) return false;
    request->query.emplace_back(*name, *value);
  }
  return true;
}

}  // namespace octavo::server
