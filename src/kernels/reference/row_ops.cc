// The operations on rows in plain loops: docs/contracts/arithmetic.md A5, A6, A7, A10 and A11 as
// they stand.

#include "kernels/row_ops.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include "base/portable_math.h"
#include "kernels/canonical_math.h"
#include "kernels/kernel_sets.h"
#include "kernels/reference/target.h"

OCTAVO_REFERENCE_BEGIN

namespace octavo::kernels {
namespace {

void RmsNorm(const float* x, const float* weight, int64_t n, float eps, float* y) {
  float lanes[kLanes] = {};
  for (int64_t i = 0; i < n; ++i) lanes[i % kLanes] = std::fma(x[i], x[i], lanes[i % kLanes]);
  const float mean = LaneTree(lanes) / static_cast<float>(n);
  const float scale = 1.0f / std::sqrt(mean + eps);
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] * scale) * weight[i];
}

void Add(float* x, const float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = x[i] + y[i];
}

void SiluMul(const float* gate, const float* up, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = Silu(gate[i]) * up[i];
}

void Rope(float* row, int64_t num_heads, int64_t head_dim, int64_t rot_dim, RopeLayout layout,
          const float* cos, const float* sin) {
  const int64_t num_pairs = rot_dim / 2;
  const bool neox = layout == RopeLayout::kNeox;
  for (int64_t head = 0; head < num_heads; ++head) {
    float* x = row + head * head_dim;
    for (int64_t i = 0; i < num_pairs; ++i) {
      float& first = neox ? x[i] : x[2 * i];
      float& second = neox ? x[i + num_pairs] : x[2 * i + 1];
      const float a = first;
      const float b = second;
      first = std::fma(a, cos[i], -(b * sin[i]));
      second = std::fma(a, sin[i], b * cos[i]);
    }
  }
}

int64_t ArgmaxFinite(const float* x, int64_t n) {
  int64_t best = -1;
  float max = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < n; ++i) {
    if (!(x[i] < std::numeric_limits<float>::infinity())) return -1;
    if (x[i] > max) {
      max = x[i];
      best = i;
    }
  }
  return best;
}

float LogSumExp(const float* x, int64_t n, float max) {
  double sum = 0.0;
  for (int64_t first = 0; first < n; first += kLogSumExpBlock) {
    float lanes[kLanes] = {};
    for (int64_t i = first; i < n && i < first + kLogSumExpBlock; ++i) {
      lanes[i % kLanes] = lanes[i % kLanes] + Exp(x[i] - max);
    }
    sum += LaneTree(lanes);
  }
  return static_cast<float>(base::Log(sum) + max);
}

}  // namespace

RowOpKernels ReferenceRowOps() { return {RmsNorm, Add, SiluMul, Rope, ArgmaxFinite, LogSumExp}; }

}  // namespace octavo::kernels

OCTAVO_REFERENCE_END
