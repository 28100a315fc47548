#pragma once

// Purpose:    what is counted of finished requests for /metrics: vLLM's histograms.
// Ownership:  owns its counts.
// Threading:  the I/O thread.
// Invariants: a request is counted once, when its answer is out; counts never fall.

#include <prometheus/metric_family.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "octavo/request.h"
#include "octavo/request_output.h"

namespace octavo::server {

// What a request asked for.
struct RequestShape {
  int32_t num_completions = 1;
  int32_t max_tokens = 0;  // 0 = as many as fit
};
std::vector<RequestShape> ShapesOf(std::span<const Request> requests);

// Counts by upper bound, as Prometheus wants them.
class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds);
  void Record(double value);
  prometheus::ClientMetric Collect() const;

 private:
  std::vector<double> bounds_;    // rising
  std::vector<uint64_t> counts_;  // [bounds + 1]
  uint64_t num_samples_ = 0;
  double sum_ = 0.0;
};

class RequestMetrics {
 public:
  RequestMetrics();

  // One output for each shape.
  void Record(std::span<const RequestOutput> outputs, std::span<const RequestShape> shapes);
  // Its client left, or its time was over.
  void RecordAborted() { ++num_cut_off_; }

  // Adds the families; `former_names` also under the names that vLLM gave up.
  void Collect(bool former_names, std::vector<prometheus::MetricFamily>* families) const;

 private:
  struct Named {
    const char* name;
    const char* help;
    Histogram histogram;
  };

  void RecordOne(const RequestOutput& output, const RequestShape& shape);

  std::vector<Named> histograms_;
  uint64_t num_cut_off_ = 0;
};

}  // namespace octavo::server
