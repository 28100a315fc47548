#include "engine/sampling/top_tokens.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace octavo::engine {
namespace {

constexpr float kNegativeInfinity = -std::numeric_limits<float>::infinity();

// Below this many a comparison sort is faster than the passes of SortFalling.
constexpr size_t kMinRadixTokens = 1024;

bool Before(const ScoredToken& a, const ScoredToken& b) {
  if (a.logit != b.logit) return a.logit > b.logit;
  return a.token_id < b.token_id;
}

// Rises as the logit falls; one value for both zeros.
uint32_t FallingKey(float logit) {
  const auto bits = std::bit_cast<uint32_t>(logit + 0.0f);
  return (bits & 0x80000000u) != 0 ? bits : bits ^ 0x7FFFFFFFu;
}

// A stable radix sort by falling logit, least significant digit first: 3 digits of 11 bits.
// REQUIRES: `tokens` in the order of their ids; `scratch` is as long.
void SortFalling(std::span<ScoredToken> tokens, std::span<ScoredToken> scratch) {
  constexpr int kDigitBits = 11, kNumDigits = 3;
  constexpr uint32_t kNumBuckets = 1u << kDigitBits;
  std::array<std::array<uint32_t, kNumBuckets>, kNumDigits> starts{};
  const auto bucket_of = [](const ScoredToken& token, size_t digit) {
    return (FallingKey(token.logit) >> (digit * kDigitBits)) % kNumBuckets;
  };
  for (const ScoredToken& token : tokens) {
    for (size_t digit = 0; digit < kNumDigits; ++digit) ++starts[digit][bucket_of(token, digit)];
  }
  std::span<ScoredToken> from = tokens, to = scratch;
  for (size_t digit = 0; digit < kNumDigits; ++digit) {
    std::exclusive_scan(starts[digit].begin(), starts[digit].end(), starts[digit].begin(), 0u);
    for (const ScoredToken& token : from) to[starts[digit][bucket_of(token, digit)]++] = token;
    std::swap(from, to);
  }
  std::copy(from.begin(), from.end(), tokens.begin());
}

}  // namespace

TopTokens::TopTokens(int32_t vocab_size, const kernels::RowOpKernels& row_ops)
    : vocab_size_(vocab_size), row_ops_(row_ops) {
  OCTAVO_CHECK(vocab_size >= 1, "a vocabulary has at least one token");
  const int64_t num_blocks = (vocab_size_ + kBlockTokens - 1) / kBlockTokens;
  block_max_.resize(static_cast<size_t>(num_blocks));
  block_scratch_.resize(static_cast<size_t>(num_blocks));
  selected_.reserve(static_cast<size_t>(vocab_size_));
  sort_scratch_.resize(static_cast<size_t>(vocab_size_));
}

void TopTokens::SetRow(std::span<const float> logits) {
  OCTAVO_CHECK(static_cast<int64_t>(logits.size()) == vocab_size_,
               "a row of logits has one per token");
  row_ = logits;
  for (int64_t b = 0; b < num_blocks(); ++b) {
    const std::span<const float> tokens = block(b);
    const int64_t highest =
        row_ops_.argmax_finite(tokens.data(), static_cast<int64_t>(tokens.size()));
    block_max_[static_cast<size_t>(b)] =
        highest < 0 ? kNegativeInfinity : tokens[static_cast<size_t>(highest)];
  }
}

std::span<const float> TopTokens::block(int64_t b) const {
  const int64_t begin = b * kBlockTokens;
  const int64_t count = std::min(kBlockTokens, vocab_size_ - begin);
  return row_.subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
}

float TopTokens::LowerBound(int64_t n) {
  if (n > num_blocks()) return kNegativeInfinity;
  std::copy(block_max_.begin(), block_max_.end(), block_scratch_.begin());
  const auto nth = block_scratch_.begin() + (n - 1);
  std::nth_element(block_scratch_.begin(), nth, block_scratch_.end(), std::greater<float>());
  return *nth;
}

std::span<const ScoredToken> TopTokens::Select(int64_t n) {
  OCTAVO_CHECK(n >= 1 && !row_.empty(), "SetRow comes first, and n is at least 1");
  const float bound = LowerBound(n);
  selected_.clear();
  for (int64_t b = 0; b < num_blocks(); ++b) {
    if (block_max(b) < bound) continue;
    const std::span<const float> tokens = block(b);
    const auto first = static_cast<TokenId>(b * kBlockTokens);
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i] >= bound) selected_.push_back({tokens[i], first + static_cast<TokenId>(i)});
    }
  }
  if (selected_.size() < kMinRadixTokens) {
    std::sort(selected_.begin(), selected_.end(), Before);
  } else {
    SortFalling(selected_, std::span(sort_scratch_).first(selected_.size()));
  }
  if (n < static_cast<int64_t>(selected_.size())) selected_.resize(static_cast<size_t>(n));
  return selected_;
}

}  // namespace octavo::engine
