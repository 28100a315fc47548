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
#include "model/model.h"

namespace octavo::model {

struct RowRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t count() const { return end - begin; }
};

// A product's input in both forms; row 0 is the first row of the range at hand.
struct LinearInput {
  const float* rows = nullptr;
  int64_t stride = 0;
  kernels::QuantizedRows quantized{};
};

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
  void Attend(int thread, int32_t layer, RowRange rows);
  void AttendRowTile(int thread, const kernels::PagedKvView& view,
                     const kernels::QueryRows& queries, int64_t kv_head, RowRange slice_rows,
                     int64_t first_row);
  void AttendSplit(int thread, int32_t layer, int64_t row);
  void NormaliseOutputs(int thread);

  LinearInput Normalise(int thread, const float* weight, RowRange rows);
  LinearInput Quantise(int thread, const RowBuffer& source, int64_t width, RowRange rows);
  // The thread's share of one product: its output columns of `out`, rows [rows.begin, rows.end).
  void Multiply(int thread, const Linear& linear, const LinearInput& input, RowRange rows,
                const RowBuffer& out) const;
  void AddToResidual(int thread, const Linear& linear, RowRange rows) const;
  RowRange ActiveRows(int32_t layer) const;
  bool UsesInt8(const Linear& linear) const;
  bool QuantisesInput(int64_t width) const;

  Model& model_;
  const ForwardBatch& batch_;
  kvstore::KvStore& store_;
  const kernels::KernelTable& kernels_;
  const ModelConfig& config_;
  Workspace& workspace_;
  base::ThreadPool& pool_;
  const int num_threads_;
  const int64_t num_rows_;
  const bool quantise_;
};

// Thread `thread`'s part of `total` items, as even as whole units of `unit` items allow.
RowRange ShareOf(int64_t total, int64_t unit, int thread, int num_threads);

}  // namespace octavo::model
