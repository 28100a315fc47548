#pragma once

// Purpose:    metric families as the text that Prometheus reads (version 0.0.4 of its format).
// Ownership:  none.
// Threading:  any thread.
// Invariants: help and label values are escaped. The library's own serializer writes labels through
//             a stream, character by character, which takes three times as long; /metrics is read
//             often, on the thread that serves everything else.

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

namespace octavo::server {

// Every line has `labels` after its own (and `le` after them). REQUIRES: counters, gauges and
// histograms whose last bucket is that of +Inf.
std::string ExposeFamilies(const std::vector<prometheus::MetricFamily>& families,
                           const std::vector<prometheus::ClientMetric::Label>& labels);

}  // namespace octavo::server
