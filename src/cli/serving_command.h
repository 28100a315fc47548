#pragma once

// Purpose:    `octavo bench serve`: load on a server that speaks OpenAI's completions API, measured
//             as vLLM's tool of the same name does.
// Ownership:  holds its options.
// Threading:  one thread.
// Invariants: the JSON has vLLM's keys (docs/guides/measuring.md).

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "bench/serving_client.h"
#include "bench/serving_load.h"
#include "bench/serving_metrics.h"
#include "octavo/status.h"

namespace octavo::cli {

class ServingBench {
 public:
  explicit ServingBench(CLI::App& app);
  Status Run();

 private:
  void AddLoad(CLI::App& app);
  Result<std::vector<bench::Conversation>> Load() const;
  Status ReadGoodput();
  std::string Table(const bench::ServingMetrics& metrics) const;
  std::string Json(const bench::ServingMetrics& metrics,
                   const std::vector<bench::ServedRequest>& requests) const;

  std::string base_url_ = "http://127.0.0.1:8000";
  std::string dataset_ = "random";
  std::string dataset_path_;
  std::string percentiles_ = "50,90,99";
  std::vector<std::string> goodput_;
  bool respects_eos_ = false;
  bool json_ = false;
  bool details_ = false;
  bench::LoadOptions load_;
  bench::ServingTarget target_;
  bench::GoodputLimits limits_;
  std::vector<double> percentile_values_;
};

}  // namespace octavo::cli
