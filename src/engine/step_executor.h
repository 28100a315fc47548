#pragma once

// Purpose:    the data plane as the engine's core sees it: it moves blocks and computes steps, and
//             knows no request. The real one runs a model (model_executor.h); a test puts one in
//             its place that needs none.
// Ownership:  the core borrows it.
// Threading:  the engine thread.
// Invariants: calls come in the order SwapOut, CopyBlocks and SwapIn, Forward, Logits within a
//             step, and take effect in the order in which they come.

#include <cstdint>
#include <span>

#include "model/forward_batch.h"
#include "octavo/kvcache/kv_cache_manager.h"

namespace octavo::engine {

// A block of the pool and a block of the swap space.
struct BlockMove {
  uint32_t pool_block = 0;
  uint32_t swap_block = 0;
};

class StepExecutor {
 public:
  virtual ~StepExecutor() = default;

  virtual void CopyBlocks(std::span<const kvcache::BlockCopy> copies) = 0;
  virtual void SwapOut(std::span<const BlockMove> moves) = 0;
  virtual void SwapIn(std::span<const BlockMove> moves) = 0;
  virtual void Forward(const model::ForwardBatch& batch) = 0;
  // The logits of output rows [first, first + count) of the last Forward, [count, vocab_size];
  // valid until the next call, and the caller may write to them.
  // REQUIRES: 1 <= count <= max_logits_rows.
  virtual std::span<float> Logits(int64_t first, int64_t count) = 0;

  virtual int64_t max_logits_rows() const = 0;
  virtual int32_t vocab_size() const = 0;
  // Seconds on a clock that never falls.
  virtual double Now() const = 0;
};

}  // namespace octavo::engine
