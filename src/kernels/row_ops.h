#pragma once

// Purpose:    the operations on rows of activations and logits between the products (arithmetic.md
//             A5 to A7, A9, A10).
// Threading:  pure; callers split rows or column ranges among threads.
// Invariants: in place where a header says "may alias"; otherwise inputs and outputs do not
//             overlap.

#include <cstdint>

namespace octavo::kernels {

enum class RopeLayout {
  kNorm,  // rotates pairs (2i, 2i + 1)
  kNeox,  // rotates pairs (i, i + rot_dim / 2)
};

struct RowOpKernels {
  // y[i] = (x[i] * scale) * w[i] over one row; y may alias x.
  void (*rms_norm)(const float* x, const float* weight, int64_t n, float eps, float* y);
  // x[i] = x[i] + y[i]
  void (*add)(float* x, const float* y, int64_t n);
  // out[i] = silu(gate[i]) * up[i]; out may alias gate or up.
  void (*silu_mul)(const float* gate, const float* up, int64_t n, float* out);
  // Rotates the first rot_dim elements of each of num_heads heads of one row, in place. cos, sin:
  // [rot_dim / 2].
  void (*rope)(float* row, int64_t num_heads, int64_t head_dim, int64_t rot_dim, RopeLayout layout,
               const float* cos, const float* sin);
  // Index of the largest element; of equal ones the lowest; -1 if any element is NaN or +inf, or
  // all are -inf. n >= 1.
  int64_t (*argmax_finite)(const float* x, int64_t n);
  // log(sum(exp(x[i] - max))) + max, rounded to float32 (arithmetic.md A11).
  // REQUIRES: argmax_finite(x, n) >= 0, and `max` is the largest element.
  float (*log_sum_exp)(const float* x, int64_t n, float max);
};

}  // namespace octavo::kernels
