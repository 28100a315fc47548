#pragma once

// Purpose:    the activations of one step: every buffer that Model::Forward writes, sized once for
//             the largest step.
// Ownership:  owns its memory, reserved under MemoryTag::kActivations.
// Threading:  the buffers are shared by the compute threads of one Forward; `ThreadScratch(t)`
//             belongs to thread t alone.
// Invariants: every buffer is 64-byte aligned and every row stride a multiple of 16 elements;
//             nothing is allocated after Create.

#include <cstdint>
#include <vector>

#include "base/aligned_memory.h"
#include "base/memory_ledger.h"
#include "kernels/matmul.h"
#include "model/model_config.h"
#include "octavo/status.h"

namespace octavo::model {

// Rows of activations as float32, with their row stride in elements.
struct RowBuffer {
  float* data = nullptr;
  int64_t stride = 0;
  float* Row(int64_t row) const { return data + row * stride; }
};

// Rows of quantised activations in the form that the workspace's products read; the other is empty.
struct QuantizedInput {
  kernels::QuantizedRows int8{};
  kernels::QuantizedRows16 int16{};

  // The same rows, taken for inputs of `num_inputs` elements.
  QuantizedInput WithWidth(int64_t num_inputs) const;
};

// What one thread needs for itself: one row, also quantised, and the attention's scratch and
// partials.
struct ThreadScratch {
  float* row = nullptr;        // [widest input]
  QuantizedInput quantized;    // one row of the widest input
  float* attention = nullptr;  // [AttentionScratchFloats(head_dim)]
  float* partials =
      nullptr;  // [kMaxAttentionRows, group_size, PartialFloats(head_dim)]: the chunk at hand
  float* running = nullptr;  // the same shape: the chunks folded so far
};

class Workspace {
 public:
  struct Shape {
    int64_t max_rows = 0;         // tokens per step
    int64_t max_output_rows = 0;  // final hidden states kept per step
    int64_t max_model_len = 0;    // tokens
    int32_t num_threads = 0;
    kernels::Products products = kernels::Products::kInt8;
  };

  // Chunks of one-row slices that can be kept until they are folded: enough for one sequence of
  // max_model_len tokens, and for most batches of decoding sequences.
  static int64_t NumSplitPartials(const Shape& shape);
  static int64_t PlannedBytes(const ModelConfig& config, const Shape& shape);
  static Result<Workspace> Create(const ModelConfig& config, const Shape& shape,
                                  base::MemoryLedger& ledger);

  const Shape& shape() const { return shape_; }
  const ThreadScratch& thread_scratch(int thread) const {
    return scratch_[static_cast<size_t>(thread)];
  }
  // Views of the shared quantised rows for inputs of `num_inputs` elements: those that a normalised
  // or attended row becomes, and those of the feed-forward's inner rows, which are written while
  // the first are still read.
  QuantizedInput Input(int64_t num_inputs) const { return input_.WithWidth(num_inputs); }
  QuantizedInput Inner(int64_t num_inputs) const { return inner_.WithWidth(num_inputs); }

  RowBuffer hidden;     // [max_rows, hidden_dim]: the residual stream
  RowBuffer normed;     // [max_rows, hidden_dim]
  RowBuffer query;      // [max_rows, query_dim]
  RowBuffer key;        // [max_rows, kv_dim]
  RowBuffer value;      // [max_rows, kv_dim]
  RowBuffer attended;   // [max_rows, query_dim]
  RowBuffer gate;       // [max_rows, ffn_dim]
  RowBuffer up;         // [max_rows, ffn_dim]
  RowBuffer projected;  // [max_rows, hidden_dim]: before it is added to the residual
  RowBuffer output;     // [max_output_rows, hidden_dim]: final hidden states, normalised
  RowBuffer rope_cos;   // [max_rows, rot_dim / 2]
  RowBuffer rope_sin;   // [max_rows, rot_dim / 2]
  // [NumSplitPartials, num_heads, PartialFloats]: chunks of one-row slices, shared by the threads.
  float* split_partials = nullptr;

 private:
  class Carver;
  void Carve(Carver& carver, const ModelConfig& config);

  Shape shape_;
  base::AlignedBuffer memory_;
  base::MemoryReservation reservation_;
  QuantizedInput input_;
  QuantizedInput inner_;
  std::vector<ThreadScratch> scratch_;
};

}  // namespace octavo::model
