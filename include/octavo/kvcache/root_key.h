#pragma once

// Purpose:    builds the identity of a root: everything but the tokens that K and V depend on
//             (model, KV format, RoPE, window, adapter, arithmetic) and who may share them (salt).
// Ownership:  owns the bytes that it builds.
// Threading:  a value.
// Invariants: two builders that were given different lists of (tag, value) have different bytes:
//             every field is tag (1 byte), length (8 bytes, little-endian), value. No value can
//             pass for another field: an adapter named "x" is not a salt "x".

#include <cstdint>
#include <string>
#include <string_view>

namespace octavo::kvcache {

enum class RootField : uint8_t {
  kModel = 1,       // whose K and V: all that may meet in one cache must differ in it
  kArithmetic = 2,  // version of the arithmetic contract
  kKvFormat = 3,    // how K and V are stored, with all constants
  kRope = 4,        // RoPE parameters
  kWindow = 5,      // attention window, and any lossy policy
  kAdapter = 6,
  kSalt = 7,
  kOther = 255,
};

class RootKey {
 public:
  RootKey& Add(RootField field, std::string_view value);
  RootKey& Add(RootField field, int64_t value);

  std::string_view bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace octavo::kvcache
