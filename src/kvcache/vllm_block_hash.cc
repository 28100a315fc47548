#include "octavo/kvcache/vllm_block_hash.h"

#include <openssl/sha.h>

#include <cstddef>

#include "base/check.h"

namespace octavo::kvcache {
namespace {

// The few kinds of canonical CBOR that are needed (RFC 8949): the shortest head, then the value.
class CborWriter {
 public:
  void Array(size_t length) { Head(4, length); }
  void Unsigned(uint64_t value) { Head(0, value); }
  void Null() { bytes_.push_back(0xf6); }
  void Bytes(std::span<const uint8_t> value) {
    Head(2, value.size());
    bytes_.insert(bytes_.end(), value.begin(), value.end());
  }
  void Text(std::string_view value) {
    Head(3, value.size());
    bytes_.insert(bytes_.end(), value.begin(), value.end());
  }

  VllmBlockHash Digest() const {
    VllmBlockHash hash;
    SHA256(bytes_.data(), bytes_.size(), hash.digest.data());
    return hash;
  }

 private:
  void Head(uint8_t major_type, uint64_t value) {
    const auto type = static_cast<uint8_t>(major_type << 5);
    if (value < 24) {
      bytes_.push_back(static_cast<uint8_t>(type | value));
      return;
    }
    int log2_bytes = 0;  // of the argument that follows: 1, 2, 4 or 8
    while (log2_bytes < 3 && value >> (8 << log2_bytes) != 0) ++log2_bytes;
    bytes_.push_back(static_cast<uint8_t>(type | (24 + log2_bytes)));
    for (int shift = (8 << log2_bytes) - 8; shift >= 0; shift -= 8) {
      bytes_.push_back(static_cast<uint8_t>(value >> shift));
    }
  }

  std::vector<uint8_t> bytes_;
};

}  // namespace

uint64_t VllmBlockHash::ToUint64() const {
  uint64_t value = 0;
  for (const uint8_t byte : std::span(digest).last<8>()) value = value << 8 | byte;
  return value;
}

VllmBlockHash VllmNoneHash(std::string_view seed) {
  CborWriter writer;
  writer.Text(seed);
  return writer.Digest();
}

VllmBlockHash VllmHashBlock(const VllmBlockHash& parent, std::span<const int32_t> tokens,
                            std::span<const std::string_view> extra_keys) {
  CborWriter writer;
  writer.Array(3);
  writer.Bytes(parent.digest);
  writer.Array(tokens.size());
  for (const int32_t token : tokens) {
    OCTAVO_CHECK(token >= 0, "a token id is not negative");
    writer.Unsigned(static_cast<uint64_t>(token));
  }
  if (extra_keys.empty()) {
    writer.Null();
  } else {
    writer.Array(extra_keys.size());
    for (const std::string_view key : extra_keys) writer.Text(key);
  }
  return writer.Digest();
}

std::vector<VllmBlockHash> VllmHashBlocks(std::span<const int32_t> tokens,
                                          const VllmHashOptions& options) {
  OCTAVO_CHECK(options.block_size_tokens > 0, "a block holds tokens");
  const auto block_size = static_cast<size_t>(options.block_size_tokens);
  std::vector<VllmBlockHash> hashes;
  VllmBlockHash parent = VllmNoneHash(options.seed);
  for (size_t first = 0; first + block_size <= tokens.size(); first += block_size) {
    std::vector<std::string_view> extra_keys;
    if (!options.adapter.empty()) extra_keys.push_back(options.adapter);
    if (!options.salt.empty() && first == 0) extra_keys.push_back(options.salt);
    parent = VllmHashBlock(parent, tokens.subspan(first, block_size), extra_keys);
    hashes.push_back(parent);
  }
  return hashes;
}

}  // namespace octavo::kvcache
