#pragma once

// Purpose:    metric families as the text that Prometheus reads (version 0.0.4 of its format).
// Ownership:  none.
// Threading:  any thread.
// Invariants: names, help and label values are escaped. The library's own serializer writes labels
//             through a stream, character by character, which costs five times as much; /metrics is
//             read often, on the thread that serves everything else.

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

namespace octavo::server {

// Counters, gauges and histograms; each line ends with `labels` as they come.
std::string ExposeFamilies(const std::vector<prometheus::MetricFamily>& families,
                           const std::vector<prometheus::ClientMetric::Label>& labels);

}  // namespace octavo::server
