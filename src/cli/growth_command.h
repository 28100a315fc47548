#pragma once

// Purpose:    `octavo bench growth`: what a longer context, a larger batch, a longer queue and a
//             larger pool cost.
// Ownership:  holds its options.
// Threading:  one thread.
// Invariants: none beyond bench/cost_growth.h.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/cost_growth.h"
#include "cli/engine_flags.h"
#include "octavo/status.h"

namespace octavo::cli {

class GrowthBench {
 public:
  explicit GrowthBench(CLI::App& app);
  Status Run();

 private:
  // One curve with the texts of its table and plot.
  struct Curve {
    std::string name;  // "context"
    std::string x_label;
    std::string y_label;
    bench::GrowthCurve points;
  };

  Status Keep(Curve curve);
  Status MeasureEngine(const EngineOptions& options);
  Status MeasureQueue(const EngineOptions& options);
  std::string PlotPath(const std::string& name) const;
  std::string ToJson() const;

  std::vector<int32_t> contexts_ = {128, 256, 512, 1024, 2048, 4096, 8000};
  std::vector<int32_t> batches_ = {1, 2, 4, 8, 16, 32, 64};
  std::vector<int32_t> waiting_ = {0, 10, 100, 1000, 10000};
  std::vector<int32_t> pools_ = {1000, 10000, 100000, 1000000};
  std::string plot_prefix_;
  bool json_ = false;
  EngineFlags engine_flags_;
  std::vector<Curve> curves_;
};

}  // namespace octavo::cli
