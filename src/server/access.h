#pragma once

// Purpose:    who may call what: API keys, the admin key, and other origins in browsers.
// Ownership:  keeps digests of the keys, never the keys.
// Threading:  immutable; any thread.
// Invariants: a key is compared in a time that depends neither on its content nor on which of the
//             keys it is; a request with no, a wrong or two keys gets the same answer.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/api_error.h"
#include "server/http_message.h"
#include "server/server_options.h"

namespace octavo::server {

enum class Guard {
  kOpen,   // everybody: liveness, version, metrics
  kKey,    // clients with an API key, if there are any
  kAdmin,  // what concerns all clients
};

class Access {
 public:
  explicit Access(const AccessOptions& options);

  // Nothing if the request may go on.
  std::optional<ApiError> Check(Guard guard, const HttpRequest& request) const;
  // What keeps the cache of the request's key apart; empty if keys share. REQUIRES: Check is OK.
  std::string KeySalt(const HttpRequest& request) const;

  // Nothing unless a web page of another origin calls that is not allowed to: browsers send some
  // requests without asking first.
  std::optional<ApiError> CheckOrigin(const HttpRequest& request) const;
  // Response headers for browsers: none unless the request's origin is allowed.
  Headers CorsHeaders(const HttpRequest& request) const;
  Headers PreflightHeaders(const HttpRequest& request) const;

 private:
  using Digest = std::array<uint8_t, 32>;

  static Digest DigestOf(std::string_view text);
  static bool Equal(const Digest& a, const Digest& b);
  static std::optional<std::string_view> BearerOf(const HttpRequest& request);

  std::vector<Digest> keys_;
  std::optional<Digest> admin_key_;
  bool salt_by_key_;
  std::vector<std::string> allowed_origins_;
};

// Keys have caches of their own; a salt divides a key's cache further. Both as one digest: however
// long they are, the engine takes it. `cache_salt` itself if keys share.
std::string SaltWithin(std::string_view key_salt, std::string cache_salt);

}  // namespace octavo::server
