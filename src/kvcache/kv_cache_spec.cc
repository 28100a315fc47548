#include "octavo/kvcache/kv_cache_spec.h"

#include <fmt/format.h>

#include <bit>

#include "base/check.h"
#include "base/checked_math.h"

namespace octavo::kvcache {
namespace {

constexpr int32_t kPaddedHeadMultiple = 64;  // bytes

Status CheckPositive(const char* name, int32_t value) {
  if (value > 0) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("KV cache: {} is {}, at least 1 is needed", name, value));
}

}  // namespace

bool IsBlockSize(int32_t block_size_tokens) {
  return block_size_tokens >= kMinBlockSizeTokens && block_size_tokens <= kMaxBlockSizeTokens &&
         std::has_single_bit(static_cast<uint32_t>(block_size_tokens));
}

Status KvCacheSpec::Validate() const {
  if (Status s = CheckPositive("num_layers", num_layers); !s.ok()) return s;
  if (Status s = CheckPositive("num_kv_heads", num_kv_heads); !s.ok()) return s;
  if (Status s = CheckPositive("head_dim", head_dim); !s.ok()) return s;
  if (Status s = CheckPositive("bytes_per_element", bytes_per_element); !s.ok()) return s;
  if (scale_bytes < 0) {
    return Status::InvalidArgument(
        fmt::format("KV cache: scale_bytes is {}, at least 0 is needed", scale_bytes));
  }
  if (!IsBlockSize(block_size_tokens)) {
    return Status::InvalidArgument(
        fmt::format("KV cache: block size is {} tokens, possible are 8, 16, 32, 64, 128 and 256",
                    block_size_tokens));
  }
  if (!BytesPerBlock()) {
    return Status::InvalidArgument("KV cache: the bytes of one block exceed 2^63 - 1");
  }
  return Status::Ok();
}

std::optional<int64_t> KvCacheSpec::HeadBytesPerBlock() const {
  const auto elements = base::CheckedProduct(int64_t{head_dim}, int64_t{bytes_per_element});
  const auto with_scale = elements ? base::CheckedAdd(*elements, int64_t{scale_bytes}) : elements;
  if (!with_scale) return std::nullopt;
  const auto bytes = base::CheckedProduct(int64_t{2}, *with_scale, int64_t{block_size_tokens});
  if (!bytes || scale_bytes == 0) return bytes;
  return base::CheckedRoundUp(*bytes, int64_t{kPaddedHeadMultiple});
}

// The padding of a head is divided among a block's tokens without a remainder: both are powers of
// two, and where a block is the larger one there is none.
std::optional<int64_t> KvCacheSpec::BytesPerToken() const {
  const auto head = HeadBytesPerBlock();
  if (!head) return std::nullopt;
  return base::CheckedProduct(int64_t{num_layers}, int64_t{num_kv_heads},
                              *head / block_size_tokens);
}

std::optional<int64_t> KvCacheSpec::BytesPerBlock() const {
  const auto per_token = BytesPerToken();
  return per_token ? base::CheckedMultiply(*per_token, int64_t{block_size_tokens}) : std::nullopt;
}

int64_t KvCacheSpec::NumBlocksForTokens(int64_t num_tokens) const {
  OCTAVO_DCHECK(num_tokens >= 0, "a token count is not negative");
  return base::CeilDivide(num_tokens, int64_t{block_size_tokens});
}

std::optional<int64_t> KvCacheSpec::NumBlocksForBytes(int64_t budget_bytes) const {
  OCTAVO_DCHECK(budget_bytes >= 0, "a memory budget is not negative");
  const auto per_block = BytesPerBlock();
  if (!per_block) return std::nullopt;
  OCTAVO_DCHECK(*per_block > 0, "the spec is validated first");
  return budget_bytes / *per_block;
}

}  // namespace octavo::kvcache
