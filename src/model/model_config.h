#pragma once

// Purpose:    the geometry and constants of one model of the Llama family, read from GGUF metadata
//             and checked.
// Ownership:  a plain value.
// Threading:  immutable after ReadModelConfig.
// Invariants: every count is positive and within the limits of model_config.cc; num_heads is a
//             multiple of num_kv_heads; head_dim is a multiple of 8 up to 256; rot_dim is even and
//             at most head_dim.

#include <cstdint>
#include <string>

#include "formats/gguf_file.h"
#include "kernels/row_ops.h"
#include "octavo/status.h"

namespace octavo::model {

enum class RopeScaling {
  kNone,
  kLinear,    // positions divided by `factor`
  kYarn,      // frequencies blended between divided and plain by a ramp over the pairs
  kLongRope,  // one divisor per pair, from a short or a long list
};

struct RopeConfig {
  kernels::RopeLayout layout = kernels::RopeLayout::kNorm;
  double base = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;                  // how much longer than trained
  int32_t original_context_length = 0;  // tokens, before scaling
  double attention_factor = 1.0;  // multiplies cos and sin, beside what the scaling itself implies
  double yarn_beta_fast = 32.0;
  double yarn_beta_slow = 1.0;
};

struct ModelConfig {
  std::string architecture;
  std::string name;
  int32_t num_layers = 0;
  int32_t hidden_dim = 0;
  int32_t ffn_dim = 0;
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t rot_dim = 0;
  int32_t vocab_size = 0;
  int32_t context_length = 0;  // tokens
  float rms_norm_eps = 0.0f;
  RopeConfig rope;

  int32_t group_size() const { return num_heads / num_kv_heads; }
  int32_t query_dim() const { return num_heads * head_dim; }
  int32_t kv_dim() const { return num_kv_heads * head_dim; }
};

// Errors name the file's key, its value and the limit.
Result<ModelConfig> ReadModelConfig(const formats::GgufFile& file);

}  // namespace octavo::model
