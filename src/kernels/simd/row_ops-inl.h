// The operations on rows, one instruction set at a time; equal to reference/row_ops.cc bit for bit.
// Vectors cover whole groups of 16 virtual lanes; what is left of a row runs in scalars of the same
// arithmetic.

#include "kernels/simd/canonical_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace octavo::kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr FloatTag kFloat;

void RmsNorm(const float* x, const float* weight, int64_t n, float eps, float* y) {
  FloatVector sums[kParts];
  for (FloatVector& sum : sums) sum = hn::Zero(kFloat);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int part = 0; part < kParts; ++part) {
      const FloatVector value = hn::LoadU(kFloat, x + i + part * kWidth);
      sums[part] = hn::MulAdd(value, value, sums[part]);
    }
  }
  HWY_ALIGN float lanes[kLanes];
  for (int part = 0; part < kParts; ++part) hn::Store(sums[part], kFloat, lanes + part * kWidth);
  for (; i < n; ++i) lanes[i % kLanes] = std::fma(x[i], x[i], lanes[i % kLanes]);
  const float mean = LaneTree(lanes) / static_cast<float>(n);
  const float scale = 1.0f / std::sqrt(mean + eps);

  const FloatVector scales = hn::Set(kFloat, scale);
  for (i = 0; i + kWidth <= n; i += kWidth) {
    const FloatVector scaled = hn::Mul(hn::LoadU(kFloat, x + i), scales);
    hn::StoreU(hn::Mul(scaled, hn::LoadU(kFloat, weight + i)), kFloat, y + i);
  }
  for (; i < n; ++i) y[i] = (x[i] * scale) * weight[i];
}

void Add(float* x, const float* y, int64_t n) {
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    hn::StoreU(hn::Add(hn::LoadU(kFloat, x + i), hn::LoadU(kFloat, y + i)), kFloat, x + i);
  }
  for (; i < n; ++i) x[i] = x[i] + y[i];
}

void SiluMul(const float* gate, const float* up, int64_t n, float* out) {
  const FloatVector one = hn::Set(kFloat, 1.0f);
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    const FloatVector g = hn::LoadU(kFloat, gate + i);
    const FloatVector silu = hn::Div(g, hn::Add(one, Exp(hn::Neg(g))));
    hn::StoreU(hn::Mul(silu, hn::LoadU(kFloat, up + i)), kFloat, out + i);
  }
  for (; i < n; ++i) out[i] = Silu(gate[i]) * up[i];
}

// One head; `x` and the pairs' cosines and sines.
void RopeNorm(float* x, int64_t num_pairs, const float* cos, const float* sin) {
  int64_t i = 0;
  for (; i + kWidth <= num_pairs; i += kWidth) {
    FloatVector a, b;
    hn::LoadInterleaved2(kFloat, x + 2 * i, a, b);
    const FloatVector c = hn::LoadU(kFloat, cos + i);
    const FloatVector s = hn::LoadU(kFloat, sin + i);
    hn::StoreInterleaved2(hn::MulSub(a, c, hn::Mul(b, s)), hn::MulAdd(a, s, hn::Mul(b, c)), kFloat,
                          x + 2 * i);
  }
  for (; i < num_pairs; ++i) {
    const float a = x[2 * i];
    const float b = x[2 * i + 1];
    x[2 * i] = std::fma(a, cos[i], -(b * sin[i]));
    x[2 * i + 1] = std::fma(a, sin[i], b * cos[i]);
  }
}

void RopeNeox(float* x, int64_t num_pairs, const float* cos, const float* sin) {
  float* y = x + num_pairs;
  int64_t i = 0;
  for (; i + kWidth <= num_pairs; i += kWidth) {
    const FloatVector a = hn::LoadU(kFloat, x + i);
    const FloatVector b = hn::LoadU(kFloat, y + i);
    const FloatVector c = hn::LoadU(kFloat, cos + i);
    const FloatVector s = hn::LoadU(kFloat, sin + i);
    hn::StoreU(hn::MulSub(a, c, hn::Mul(b, s)), kFloat, x + i);
    hn::StoreU(hn::MulAdd(a, s, hn::Mul(b, c)), kFloat, y + i);
  }
  for (; i < num_pairs; ++i) {
    const float a = x[i];
    const float b = y[i];
    x[i] = std::fma(a, cos[i], -(b * sin[i]));
    y[i] = std::fma(a, sin[i], b * cos[i]);
  }
}

void Rope(float* row, int64_t num_heads, int64_t head_dim, int64_t rot_dim, RopeLayout layout,
          const float* cos, const float* sin) {
  const auto rotate = layout == RopeLayout::kNorm ? RopeNorm : RopeNeox;
  for (int64_t head = 0; head < num_heads; ++head) {
    rotate(row + head * head_dim, rot_dim / 2, cos, sin);
  }
}

// The largest element, or +infinity if one is NaN or +infinity.
float MaxOrInfinity(const float* x, int64_t n) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const FloatVector infinity = hn::Set(kFloat, kInfinity);
  FloatVector max0 = hn::Neg(infinity);
  FloatVector max1 = max0;
  // Not (value < infinity) catches NaN too; the blend keeps it as infinity, which no later value
  // replaces.
  const auto update = [infinity](FloatVector max, FloatVector value) HWY_ATTR {
    return hn::Max(max, hn::IfThenElse(hn::Lt(value, infinity), value, infinity));
  };
  int64_t i = 0;
  for (; i + 2 * kWidth <= n; i += 2 * kWidth) {
    max0 = update(max0, hn::LoadU(kFloat, x + i));
    max1 = update(max1, hn::LoadU(kFloat, x + i + kWidth));
  }
  float max = hn::GetLane(hn::MaxOfLanes(kFloat, hn::Max(max0, max1)));
  for (; i < n; ++i) max = x[i] < kInfinity ? (x[i] > max ? x[i] : max) : kInfinity;
  return max;
}

int64_t ArgmaxFinite(const float* x, int64_t n) {
  const float max = MaxOrInfinity(x, n);
  if (std::isinf(max)) return -1;
  const FloatVector target = hn::Set(kFloat, max);
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    const intptr_t lane = hn::FindFirstTrue(kFloat, hn::Eq(hn::LoadU(kFloat, x + i), target));
    if (lane >= 0) return i + lane;
  }
  while (x[i] != max) ++i;
  return i;
}

// The sum of Exp(x[i] - max) over one block of log-sum-exp.
float SumOfExps(const float* x, int64_t n, float max) {
  const FloatVector maxima = hn::Set(kFloat, max);
  FloatVector sums[kParts];
  for (FloatVector& sum : sums) sum = hn::Zero(kFloat);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int part = 0; part < kParts; ++part) {
      const FloatVector value = hn::LoadU(kFloat, x + i + part * kWidth);
      sums[part] = hn::Add(sums[part], Exp(hn::Sub(value, maxima)));
    }
  }
  HWY_ALIGN float lanes[kLanes];
  for (int part = 0; part < kParts; ++part) hn::Store(sums[part], kFloat, lanes + part * kWidth);
  for (; i < n; ++i) lanes[i % kLanes] = lanes[i % kLanes] + kernels::Exp(x[i] - max);
  return LaneTree(lanes);
}

float LogSumExp(const float* x, int64_t n, float max) {
  double sum = 0.0;
  for (int64_t i = 0; i < n; i += kLogSumExpBlock) {
    sum += SumOfExps(x + i, HWY_MIN(kLogSumExpBlock, n - i), max);
  }
  return static_cast<float>(base::Log(sum) + max);
}

}  // namespace

constexpr RowOpKernels kRowOps{RmsNorm, Add, SiluMul, Rope, ArgmaxFinite, LogSumExp};

}  // namespace HWY_NAMESPACE
}  // namespace octavo::kernels
HWY_AFTER_NAMESPACE();
