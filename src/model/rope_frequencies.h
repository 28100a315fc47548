#pragma once

// Purpose:    the rotation of every pair of a head at every position: frequencies with their
//             scaling applied, and the cos and sin rows that the kernels read (arithmetic.md A7).
// Ownership:  owns its frequencies.
// Threading:  immutable after construction; FillRow may run on any thread.
// Invariants: FillRow depends on the position alone, so a row is the same in prefill and decode and
//             on every machine.

#include <cstdint>
#include <span>
#include <vector>

#include "model/model_config.h"

namespace octavo::model {

// The divisors that a file may bring along, one per pair; empty where it has none.
struct RopeFactors {
  std::vector<float> frequency_divisors;  // rope_freqs.weight (the Llama 3 scaling)
  std::vector<float> long_divisors;       // rope_factors_long.weight
  std::vector<float> short_divisors;      // rope_factors_short.weight
};

class RopeFrequencies {
 public:
  // `model_len` (tokens) chooses between the long and the short list of kLongRope. The divisors'
  // lengths are rot_dim / 2 or 0.
  RopeFrequencies(const RopeConfig& config, int32_t rot_dim, int32_t model_len,
                  const RopeFactors& factors);

  int32_t num_pairs() const { return static_cast<int32_t>(frequencies_.size()); }

  // cos, sin: [num_pairs()]
  void FillRow(int64_t position, float* cos, float* sin) const;

 private:
  std::vector<double> frequencies_;  // radians per position
  double magnitude_ = 1.0;
};

}  // namespace octavo::model
