#pragma once

// Purpose:    the forward pass of a Llama-family model: tokens in, K and V into the store, final
//             hidden states and logits out. Prefill and decode are one path; a row's result never
//             depends on the other rows (docs/contracts/exactness.md).
// Ownership:  owns weights and workspace; borrows the mapped file, the compute threads and, per
//             call, the KvStore.
// Threading:  one call at a time; a call uses all threads of the pool.
// Invariants: nothing is allocated inside Forward and Logits.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/memory_ledger.h"
#include "base/thread_pool.h"
#include "formats/gguf_file.h"
#include "kernels/kernel_table.h"
#include "kvstore/kv_store.h"
#include "model/attention_plan.h"
#include "model/forward_batch.h"
#include "model/model_config.h"
#include "model/model_weights.h"
#include "model/rope_frequencies.h"
#include "model/workspace.h"
#include "octavo/profiler.h"
#include "octavo/status.h"

namespace octavo::model {

struct ModelOptions {
  const kernels::KernelTable* kernels = nullptr;
  kernels::Products products = kernels::Products::kInt8;
  int64_t max_rows = 0;         // tokens per Forward
  int64_t max_output_rows = 0;  // final hidden states kept per Forward
  int32_t max_model_len = 0;    // tokens
  // Tokens that were asked for, however many of them memory allows: chooses kLongRope's list, so
  // that the machine does not choose the answer.
  int32_t rope_model_len = 0;
  Profiler* profiler = nullptr;  // attached to the pool's threads; null: nothing is recorded
};

// A product's input in both forms; row 0 is the first row of the range at hand.
struct LinearInput {
  const float* rows = nullptr;
  int64_t stride = 0;
  QuantizedInput quantized{};
};

class Model {
 public:
  // `file`, `pool` and `ledger` must outlive the model.
  static Result<std::unique_ptr<Model>> Load(const formats::GgufFile& file,
                                             const ModelConfig& config, const ModelOptions& options,
                                             base::ThreadPool& pool, base::MemoryLedger& ledger,
                                             const std::function<void(double)>& on_progress);

  // Computes every row of `batch`: writes its K and V into `store`, and keeps the final hidden
  // states of batch.output_rows. REQUIRES: 1 <= rows <= max_rows; at most max_output_rows output
  // rows; tokens within the vocabulary.
  void Forward(const ForwardBatch& batch, kvstore::KvStore& store);

  // The logits of output rows [first, first + count) of the last Forward. out: [count, vocab_size].
  void Logits(int64_t first, int64_t count, float* out);

  const ModelConfig& config() const { return config_; }
  const kernels::KernelTable& kernels() const { return *options_.kernels; }

 private:
  friend class ForwardStep;
  Model(const ModelConfig& config, const ModelOptions& options, base::ThreadPool& pool);

  // Row `row` of `out` from `width` elements. REQUIRES: products in integers.
  void QuantiseRow(const float* x, int64_t width, int64_t row, const QuantizedInput& out) const;
  // Panels of one product; of `input` the form that products with these weights read.
  void MultiplyPanels(const Linear& linear, const LinearInput& input, int64_t num_rows,
                      RowRange panels, float* out, int64_t out_stride) const;
  void Mark(int thread, ProfileZone zone) const {
    if (options_.profiler != nullptr) options_.profiler->Mark(thread, zone);
  }
  void ComputeLogits(int thread, int64_t first, int64_t count, float* out);
  // A thread enters threaded work: the engine's own goes on, the others wake up.
  void MarkEntry(int thread) const;
  void MarkLayer(int thread, int32_t layer) const {
    if (options_.profiler != nullptr) options_.profiler->SetLayer(thread, layer);
  }
  // What the thread did since its last mark was `zone`; then it waits for the others.
  void Meet(int thread, ProfileZone zone) const {
    Mark(thread, zone);
    pool_.Barrier();
    Mark(thread, ProfileZone::kBarrierWait);
  }

  ModelConfig config_;
  ModelOptions options_;
  base::ThreadPool& pool_;
  std::unique_ptr<ModelWeights> weights_;
  std::unique_ptr<RopeFrequencies> rope_;
  Workspace workspace_;
  AttentionPlan all_rows_plan_;     // of the layers that compute every row
  AttentionPlan output_rows_plan_;  // of the last layer, where it computes fewer
  std::unique_ptr<std::atomic<int64_t>[]>
      next_attention_item_;  // [num_layers]: work handed out so far
};

}  // namespace octavo::model
