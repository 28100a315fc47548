#pragma once

// Purpose:    the n highest of a row of logits, in falling order, of equal ones the lowest id
//             first.
// Ownership:  owns its buffers; borrows the row between SetRow and the last Select.
// Threading:  one thread at a time.
// Invariants: nothing is allocated after construction. Row blocks of kBlockTokens bound the search:
//             the n-th highest of the block maxima is a lower bound of the n-th highest logit, so
//             most blocks need not be looked at.

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/row_ops.h"
#include "octavo/types.h"

namespace octavo::engine {

struct ScoredToken {
  float logit;
  TokenId token_id;
};

class TopTokens {
 public:
  static constexpr int64_t kBlockTokens = 256;

  TopTokens(int32_t vocab_size, const kernels::RowOpKernels& row_ops);

  // REQUIRES: logits [vocab_size] without NaN and +inf (-inf is allowed); it stays valid and
  // unchanged.
  void SetRow(std::span<const float> logits);

  // The min(n, vocab_size) highest; valid until the next call. REQUIRES: n >= 1.
  std::span<const ScoredToken> Select(int64_t n);

  int64_t num_blocks() const { return static_cast<int64_t>(block_max_.size()); }
  // The tokens of block `b` in the row.
  std::span<const float> block(int64_t b) const;
  // The highest logit of block `b`; -inf if all of it is.
  float block_max(int64_t b) const { return block_max_[static_cast<size_t>(b)]; }

 private:
  float LowerBound(int64_t n);

  const int64_t vocab_size_;
  const kernels::RowOpKernels& row_ops_;
  std::span<const float> row_;             // [vocab_size]
  std::vector<float> block_max_;           // [ceil(vocab_size / kBlockTokens)]
  std::vector<float> block_scratch_;       // the same size
  std::vector<ScoredToken> selected_;      // capacity vocab_size
  std::vector<ScoredToken> sort_scratch_;  // [vocab_size]
};

}  // namespace octavo::engine
