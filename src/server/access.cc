#include "server/access.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>

namespace octavo::server {
namespace {

constexpr std::string_view kBearer = "Bearer ";

// The same for no key and for a wrong one.
ApiError Unauthorized() {
  ApiError error;
  error.status = 401;
  error.code = "invalid_api_key";
  error.message = "this server needs one of its API keys: send 'Authorization: Bearer KEY'";
  return error;
}

ApiError Forbidden() {
  ApiError error;
  error.status = 403;
  error.code = "admin_only";
  error.message =
      "this concerns all clients: start the server with --admin-api-key, and send that key";
  return error;
}

// A host that a stranger's domain cannot be: "localhost" or an address, with a port or not.
bool IsNoDomain(std::string_view host) {
  const size_t colon = host.rfind(':');
  const bool has_port = colon != std::string_view::npos && !host.ends_with(']');
  std::string_view name = has_port ? host.substr(0, colon) : host;
  if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  boost::system::error_code error;
  boost::asio::ip::make_address(std::string(name), error);
  return name == "localhost" || !error;
}

}  // namespace

Access::Access(const AccessOptions& options)
    : salt_by_key_(options.salt_by_key), allowed_origins_(options.allowed_origins) {
  for (const std::string& key : options.api_keys) keys_.push_back(DigestOf(key));
  if (!options.admin_key.empty()) admin_key_ = DigestOf(options.admin_key);
}

std::optional<ApiError> Access::Check(Guard guard, const HttpRequest& request) const {
  if (guard == Guard::kOpen) return std::nullopt;
  const std::optional<std::string_view> bearer = BearerOf(request);
  const Digest digest = DigestOf(bearer.value_or(""));
  const bool is_admin = bearer && admin_key_ && Equal(digest, *admin_key_);
  bool has_key = false;
  for (const Digest& key : keys_) has_key |= Equal(digest, key);
  has_key &= bearer.has_value();

  if (guard == Guard::kAdmin) {
    if (is_admin) return std::nullopt;
    if (!admin_key_ && keys_.empty() && request.is_local) return std::nullopt;
    return has_key || (keys_.empty() && !admin_key_) ? Forbidden() : Unauthorized();
  }
  if (keys_.empty() || has_key || is_admin) return std::nullopt;
  return Unauthorized();
}

std::string Access::KeySalt(const HttpRequest& request) const {
  std::string salt;
  if (!salt_by_key_ || keys_.empty()) return salt;
  for (const uint8_t byte : DigestOf(BearerOf(request).value_or(""))) {
    salt += fmt::format("{:02x}", byte);
  }
  return salt;
}

Headers Access::CorsHeaders(const HttpRequest& request) const {
  const std::string_view origin = request.Header("origin");
  if (origin.empty()) return {};
  for (const std::string& allowed : allowed_origins_) {
    if (allowed == "*") {
      return {{"Access-Control-Allow-Origin", "*"},
              {"Access-Control-Expose-Headers", "X-Request-Id"}};
    }
    if (allowed == origin) {
      return {{"Access-Control-Allow-Origin", allowed},
              {"Access-Control-Expose-Headers", "X-Request-Id"},
              {"Vary", "Origin"}};
    }
  }
  return {};
}

Headers Access::PreflightHeaders(const HttpRequest& request) const {
  if (CorsHeaders(request).empty()) return {};
  // Clients in browsers send headers of their own, which the origin vouches for.
  const std::string_view wanted = request.Header("access-control-request-headers");
  return {{"Access-Control-Allow-Methods", "GET, POST"},
          {"Access-Control-Allow-Headers",
           wanted.empty() ? "Authorization, Content-Type, X-Request-Id" : std::string(wanted)},
          {"Access-Control-Max-Age", "600"}};
}

// A page's own server may be this one by its address, or because the page's owner has let the name
// of its domain lead here (DNS rebinding): then only a key tells friend from foe.
std::optional<ApiError> Access::CheckOrigin(const HttpRequest& request) const {
  const std::string_view origin = request.Header("origin");
  if (origin.empty() || !CorsHeaders(request).empty()) return std::nullopt;
  const std::string_view host = request.Header("host");
  const bool may_be_own = !keys_.empty() || IsNoDomain(host);
  if (may_be_own &&
      (origin == fmt::format("http://{}", host) || origin == fmt::format("https://{}", host))) {
    return std::nullopt;
  }
  ApiError error;
  error.status = 403;
  error.code = "origin_not_allowed";
  error.message = "pages of this origin may not call: see --allowed-origins";
  return error;
}

Access::Digest Access::DigestOf(std::string_view text) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

bool Access::Equal(const Digest& a, const Digest& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

// The key of the one Authorization header; nothing if there are none, several or another scheme.
std::optional<std::string_view> Access::BearerOf(const HttpRequest& request) {
  if (request.CountHeader("authorization") != 1) return std::nullopt;
  std::string_view value = request.Header("authorization");
  if (!value.starts_with(kBearer)) return std::nullopt;
  value.remove_prefix(kBearer.size());
  return value;
}

std::string SaltWithin(std::string_view key_salt, std::string cache_salt) {
  if (key_salt.empty()) return cache_salt;
  const std::string both = fmt::format("{}/{}", key_salt, cache_salt);
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(both.data()), both.size(), digest);
  return {reinterpret_cast<const char*>(digest), sizeof(digest)};
}

}  // namespace octavo::server
