#pragma once

// Purpose:    steps on a real model and a real KvStore.
// Ownership:  borrows all; owns nothing but the view of the logits' room.
// Threading:  the engine thread; Forward and Logits use the model's compute threads.
// Invariants: as step_executor.h.

#include <span>

#include "engine/step_executor.h"
#include "kvstore/kv_store.h"
#include "model/model.h"

namespace octavo::engine {

class ModelExecutor : public StepExecutor {
 public:
  // `swap_or_null`: a store of the same geometry for swapped blocks. `logits`: room for whole rows.
  ModelExecutor(model::Model& model, kvstore::KvStore& store, kvstore::KvStore* swap_or_null,
                std::span<float> logits)
      : model_(model), store_(store), swap_(swap_or_null), logits_(logits) {}

  void CopyBlocks(std::span<const kvcache::BlockCopy> copies) override;
  void SwapOut(std::span<const BlockMove> moves) override;
  void SwapIn(std::span<const BlockMove> moves) override;
  void Forward(const model::ForwardBatch& batch) override { model_.Forward(batch, store_); }
  std::span<float> Logits(int64_t first, int64_t count) override;

  int64_t max_logits_rows() const override {
    return static_cast<int64_t>(logits_.size()) / vocab_size();
  }
  int32_t vocab_size() const override { return model_.config().vocab_size; }
  double Now() const override;

 private:
  model::Model& model_;
  kvstore::KvStore& store_;
  kvstore::KvStore* swap_;
  std::span<float> logits_;  // [max_logits_rows, vocab_size]
};

}  // namespace octavo::engine
