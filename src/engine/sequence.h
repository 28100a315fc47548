#pragma once

// Purpose:    one stream of tokens and its K and V: what it holds, how much of it is computed, and
//             the steps that compute more.
// Ownership:  owns its block table; borrows model, store and pool.
// Threading:  the engine's thread.
// Invariants: the first num_computed_tokens() of tokens() have their K and V in the table's blocks
//             (in cache mode kNone: none between calls). What the steps compute depends on the
//             tokens alone, not on chunks, blocks or what was cached.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kvstore/kv_store.h"
#include "model/model.h"
#include "octavo/engine_options.h"
#include "octavo/kvcache/block_pool.h"
#include "octavo/kvcache/block_table.h"
#include "octavo/status.h"
#include "octavo/types.h"

namespace octavo::engine {

// What every sequence of an engine shares.
struct SequenceContext {
  model::Model* model = nullptr;
  kvstore::KvStore* store = nullptr;
  kvcache::BlockPool* pool = nullptr;
  KvCacheMode mode = KvCacheMode::kPaged;
  int32_t max_rows = 0;       // tokens per step
  int32_t max_model_len = 0;  // tokens
};

// Called after each step with the sequence's positions [first, first + count) whose final hidden
// states the model now holds; returns false to stop early.
using StepCallback = std::function<bool(int64_t first, int64_t count)>;

class Sequence {
 public:
  explicit Sequence(const SequenceContext& context);

  // Makes `tokens` the sequence's tokens, and keeps the K and V of the longest common prefix, at
  // most `max_cached` tokens of it. Returns how many tokens stay computed.
  int64_t Reset(std::span<const TokenId> tokens, int64_t max_cached);

  void Append(TokenId token) { tokens_.push_back(token); }

  enum class OutputRows { kLast, kAll };

  // Computes all tokens that are not computed yet, in chunks. kResourceExhausted when the pool has
  // no block left; what was computed so far stays. `on_step` may be empty; when it returns false
  // the rest is left out.
  Status Compute(OutputRows output_rows, const StepCallback& on_step);

  const std::vector<TokenId>& tokens() const { return tokens_; }
  int64_t num_computed_tokens() const { return table_.num_tokens(); }
  const kvcache::BlockTable& table() const { return table_; }

 private:
  Status EnsureBlocks(int64_t num_tokens);

  SequenceContext context_;
  kvcache::BlockTable table_;
  std::vector<TokenId> tokens_;
  std::vector<int32_t> output_rows_;  // scratch of one step
};

}  // namespace octavo::engine
