#pragma once

// Purpose:    the weights of one model, packed for the product kernels in their stored
//             quantisation.
// Ownership:  owns the packed bytes (MemoryTag::kWeights); embedding rows are read from the mapped
//             file, which must outlive it.
// Threading:  immutable after Load.
// Invariants: every matrix has the shape that the configuration implies; a missing or misshapen
//             tensor is a Status.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/aligned_memory.h"
#include "base/memory_ledger.h"
#include "base/thread_pool.h"
#include "formats/gguf_file.h"
#include "model/model_config.h"
#include "model/rope_frequencies.h"
#include "octavo/status.h"
#include "quant/packed_matrix.h"

namespace octavo::model {

// y = W x (+ bias)
struct Linear {
  quant::PackedMatrixView matrix{};  // [num_outputs, num_inputs]
  const float* bias = nullptr;       // [num_outputs], or null
};

struct LayerWeights {
  const float* attention_norm = nullptr;     // [hidden_dim]
  const float* feed_forward_norm = nullptr;  // [hidden_dim]
  Linear query;                              // [query_dim, hidden_dim]
  Linear key;                                // [kv_dim, hidden_dim]
  Linear value;                              // [kv_dim, hidden_dim]
  Linear attention_output;                   // [hidden_dim, query_dim]
  Linear gate;                               // [ffn_dim, hidden_dim]
  Linear up;                                 // [ffn_dim, hidden_dim]
  Linear down;                               // [hidden_dim, ffn_dim]
};

class ModelWeights {
 public:
  // `on_progress` receives the share of the bytes packed so far; may be empty.
  static Result<std::unique_ptr<ModelWeights>> Load(const formats::GgufFile& file,
                                                    const ModelConfig& config,
                                                    base::ThreadPool& pool,
                                                    base::MemoryLedger& ledger,
                                                    const std::function<void(double)>& on_progress);

  // What Load will reserve, from the tensors' shapes alone. Checks every tensor as Load does.
  static Result<int64_t> PlannedBytes(const formats::GgufFile& file, const ModelConfig& config);

  const LayerWeights& layer(int32_t index) const { return layers_[static_cast<size_t>(index)]; }
  const float* output_norm() const { return output_norm_; }  // [hidden_dim]
  const Linear& output() const {
    return output_;
  }  // [vocab_size, hidden_dim]; perhaps the tied embedding
  const RopeFactors& rope_factors() const { return rope_factors_; }
  bool has_quantized_matrix() const { return has_quantized_matrix_; }

  // Decodes the embedding of `token` to `out` [hidden_dim]. REQUIRES: 0 <= token < vocab_size.
  void EmbedToken(int32_t token, float* out) const;

 private:
  friend class WeightLoader;

  std::vector<LayerWeights> layers_;
  const float* output_norm_ = nullptr;
  Linear output_;
  RopeFactors rope_factors_;
  bool has_quantized_matrix_ = false;

  std::span<const std::byte> embedding_bytes_;
  tensor::DType embedding_dtype_ = tensor::DType::kF32;
  int64_t embedding_row_elements_ = 0;

  base::AlignedBuffer memory_;
  base::MemoryReservation reservation_;
};

}  // namespace octavo::model
