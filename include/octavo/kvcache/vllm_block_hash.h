#pragma once

// Purpose:    the names by which vLLM (`sha256_cbor`) knows blocks, for routers and caches outside
//             that speak of blocks in these terms. Computed from tokens when asked for: nothing in
//             this cache is found by them.
// Ownership:  values.
// Threading:  pure functions.
// Invariants: a block's hash is SHA-256 of the canonical CBOR of [parent hash, tokens, extra keys
//             or null]; the first block's parent is the hash of a seed. Full blocks only.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace octavo::kvcache {

struct VllmBlockHash {
  std::array<uint8_t, 32> digest{};

  // As it stands in KV events: the last 8 bytes, big-endian.
  uint64_t ToUint64() const;
  friend bool operator==(const VllmBlockHash&, const VllmBlockHash&) = default;
};

inline constexpr std::string_view kVllmDefaultSeed = "vllm-none-hash";

// The parent of first blocks.
VllmBlockHash VllmNoneHash(std::string_view seed = kVllmDefaultSeed);

// REQUIRES: no token is negative. `extra_keys`: none, or text in vLLM's order: the adapter's name,
// then (first block only) the salt.
VllmBlockHash VllmHashBlock(const VllmBlockHash& parent, std::span<const int32_t> tokens,
                            std::span<const std::string_view> extra_keys = {});

struct VllmHashOptions {
  int32_t block_size_tokens = 16;
  std::string_view seed = kVllmDefaultSeed;
  std::string_view adapter = {};  // empty: none
  std::string_view salt = {};     // empty: none
};

// One hash for each full block of `tokens`, from the first on. REQUIRES: as VllmHashBlock, and a
// block of at least one token.
std::vector<VllmBlockHash> VllmHashBlocks(std::span<const int32_t> tokens,
                                          const VllmHashOptions& options);

}  // namespace octavo::kvcache
