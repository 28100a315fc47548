#pragma once

// Purpose:    plain twins of the two row kernels that sampling uses, for its tests: standard
//             library, binary64, so that the expected values do not come from the code under test.
// Threading:  pure.

#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/row_ops.h"

namespace octavo::engine {

inline int64_t TestArgmaxFinite(const float* x, int64_t n) {
  int64_t best = -1;
  for (int64_t i = 0; i < n; ++i) {
    if (std::isnan(x[i]) || x[i] == std::numeric_limits<float>::infinity()) return -1;
    if (std::isinf(x[i])) continue;
    if (best < 0 || x[i] > x[best]) best = i;
  }
  return best;
}

inline float TestLogSumExp(const float* x, int64_t n, float max) {
  double sum = 0.0;
  for (int64_t i = 0; i < n; ++i) {
    sum += std::exp(static_cast<double>(x[i]) - static_cast<double>(max));
  }
  return static_cast<float>(std::log(sum) + static_cast<double>(max));
}

inline const kernels::RowOpKernels& TestRowOps() {
  static const kernels::RowOpKernels row_ops = [] {
    kernels::RowOpKernels result{};
    result.argmax_finite = TestArgmaxFinite;
    result.log_sum_exp = TestLogSumExp;
    return result;
  }();
  return row_ops;
}

}  // namespace octavo::engine
