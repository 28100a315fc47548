#pragma once

// Purpose:    `octavo bench roofline`, what the machine can do at best, and `octavo bench kernels`,
//             what the matrix products and attention make of it.
// Ownership:  each holds its options.
// Threading:  one thread.
// Invariants: needs no model.

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/kernel_rates.h"
#include "bench/roofline.h"
#include "octavo/status.h"

namespace octavo::cli {

class RooflineBench {
 public:
  explicit RooflineBench(CLI::App& app);
  Status Run();

 private:
  std::optional<int> threads_;
  double seconds_ = 0.2;
  bool json_ = false;
};

class KernelsBench {
 public:
  explicit KernelsBench(CLI::App& app);
  Status Run();

 private:
  void ShowHeading(const std::string& isa) const;
  void ShowRow(const bench::KernelRate& rate) const;

  bench::KernelRateOptions options_;
  std::optional<int> threads_;
  std::vector<bench::KernelRate> rates_;
  bool json_ = false;
};

}  // namespace octavo::cli
