#pragma once

// Purpose:    ComputeType, as the kernels name it.
// Threading:  pure.

#include "kernels/matmul.h"
#include "octavo/engine_options.h"

namespace octavo::engine {

constexpr kernels::Products ProductsOf(ComputeType compute) {
  switch (compute) {
    case ComputeType::kInt8:
      return kernels::Products::kInt8;
    case ComputeType::kInt16:
      return kernels::Products::kInt16;
    case ComputeType::kFloat32:
      break;
  }
  return kernels::Products::kFloat32;
}

}  // namespace octavo::engine
