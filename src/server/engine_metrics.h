#pragma once

// Purpose:    the engine's statistics as Prometheus families, under vLLM's names and octavo's own.
// Ownership:  none.
// Threading:  any thread; reads one snapshot and never waits for the engine.
// Invariants: counters never fall; label values are escaped.

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

#include "octavo/engine_stats.h"

namespace octavo::server {

struct EngineMetricsOptions {
  bool former_names = false;   // vLLM's names before 0.9 as well
  bool block_metrics = false;  // histograms of the blocks' lives
  int32_t block_size = 0;      // tokens
};

void CollectEngineMetrics(const EngineStats& stats, const EngineMetricsOptions& options,
                          std::vector<prometheus::MetricFamily>* families);

// The exposition text; every metric gets the labels model_name and engine.
std::string SerializeMetrics(const std::vector<prometheus::MetricFamily>& families,
                             const std::string& model_name);

}  // namespace octavo::server
