#pragma once

// Purpose:    one Model::Forward, as every compute thread runs it: all threads walk the layers
//             together and meet at barriers; a thread works on its share of the rows or of the
//             output panels.
// Ownership:  borrows everything for the duration of one call.
// Threading:  Run(t) is called once by each thread of the pool.
// Invariants: shares depend on the thread count, results do not: every element is computed whole by
//             one thread in the order that arithmetic.md fixes.

#include <cstdint>

#include "kernels/kernel_table.h"
#include "model/attention_plan.h"
#include "model/model.h"

namespace octavo::model {

class ForwardStep {
 public:
  ForwardStep(Model& model, const ForwardBatch& batch, kvstore::KvStore& store);

  void Run(int thread);

 private:
  void Embed(int thread);
  void AttentionBlock(int thread, int32_t layer, RowRange rows);
  void FeedForwardBlock(int thread, int32_t layer, RowRange rows);
  void ProjectQueryKeyValue(int thread, int32_t layer);
  void RotateAndStore(int thread, int32_t layer);
  void NormaliseOutputs(int thread);

  // In forward_attention.cc.
  void Attend(int thread, int32_t layer);
  void AttendPromptTile(int thread, int32_t layer, const PromptTile& tile, int64_t kv_head);
  void AttendDecodeItem(int thread, int32_t layer, const DecodeItem& item, int64_t kv_head);
  struct DecodeVisit;
  void VisitTiles(const DecodeVisit& visit, RowRange rows, kernels::TileSpan tiles);
  void FoldChunks(int thread, const AttentionPlan& plan);
  const AttentionPlan& PlanOf(int32_t layer) const;
  kernels::QueryRows QueriesFrom(int64_t row) const;
  float* SplitPartial(const DecodeItem& item, int64_t kv_head, int64_t row) const;
  float* AttendedHead(int64_t row, int64_t head) const;

  LinearInput Normalise(int thread, const float* weight, RowRange rows);
  LinearInput Quantise(int thread, const RowBuffer& source, int64_t width, RowRange rows,
                       const QuantizedInput& shared);
  LinearInput MultiplyAndActivate(int thread, const LayerWeights& weights, const LinearInput& input,
                                  RowRange rows);
  // The panels' columns of one product: rows [rows.begin, rows.end) of `out`.
  void Multiply(const Linear& linear, const LinearInput& input, RowRange rows, RowRange panels,
                const RowBuffer& out) const;
  // The thread's share of one product, added to the hidden states.
  void MultiplyIntoResidual(int thread, const Linear& linear, const LinearInput& input,
                            RowRange rows) const;
  // After its K and V are stored, the last layer matters only for the rows whose hidden state is
  // wanted.
  RowRange ActiveRows(int32_t layer) const;
  bool QuantisesInput(int64_t width) const;

  Model& model_;
  const ForwardBatch& batch_;
  kvstore::KvStore& store_;
  const kernels::KernelTable& kernels_;
  const ModelConfig& config_;
  Workspace& workspace_;
  const int num_threads_;
  const int64_t num_rows_;
  const bool quantise_;
};

// The rows from the first output row to the last.
RowRange OutputRange(const ForwardBatch& batch);

// Thread `thread`'s part of `total` items, as even as whole units of `unit` items allow.
RowRange ShareOf(int64_t total, int64_t unit, int thread, int num_threads);

}  // namespace octavo::model
