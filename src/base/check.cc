#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace octavo::base {

void CheckFailed(const char* file, int line, const char* condition, std::string_view message) {
  std::fprintf(stderr, "octavo: check failed at %s:%d: %s: %.*s\n", file, line, condition,
               static_cast<int>(message.size()), message.data());
  std::abort();
}

}  // namespace octavo::base
