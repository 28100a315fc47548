#include "base/environment.h"

#include <cstdlib>

namespace octavo::base {
namespace {

std::optional<std::string> ReadAbsolutePath(const char* name) {
  auto path = ReadEnvironment(name);
  if (path && path->front() != '/') path.reset();
  return path;
}

}  // namespace

std::optional<std::string> ReadEnvironment(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

std::optional<std::string> CacheDirectory() {
  if (const auto cache_home = ReadAbsolutePath("XDG_CACHE_HOME")) return *cache_home + "/octavo";
  if (const auto home = ReadAbsolutePath("HOME")) return *home + "/.cache/octavo";
  return std::nullopt;
}

}  // namespace octavo::base
