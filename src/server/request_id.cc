#include "server/request_id.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <random>

namespace octavo::server {

bool IsRequestId(std::string_view text) {
  constexpr size_t kMaxBytes = 128;
  const auto is_plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_' || c == '.';
  };
  return !text.empty() && text.size() <= kMaxBytes && std::ranges::all_of(text, is_plain);
}

std::string DrawRequestId() {
  thread_local std::mt19937_64 random = [] {
    std::random_device entropy;
    std::seed_seq seed{entropy(), entropy(), entropy(), entropy(), entropy(), entropy()};
    return std::mt19937_64(seed);
  }();
  return fmt::format("{:016x}{:016x}", random(), random());
}

}  // namespace octavo::server
