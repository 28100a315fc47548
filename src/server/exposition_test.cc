// The exposition format, against hand-written lines and the library's own serializer.

#include "server/exposition.h"

#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <limits>
#include <sstream>
#include <string>
#include <vector>

namespace octavo::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily HistogramFamily() {
  ClientMetric metric;
  metric.histogram.sample_count = 7;
  metric.histogram.sample_sum = 1.5;
  metric.histogram.bucket = {{3, 0.001}, {5, 2.5}, {7, std::numeric_limits<double>::infinity()}};
  return {"seconds", "How long.", MetricType::Histogram, {metric}};
}

TEST(ExpositionTest, TheLibrarysSerializerWritesTheSameText) {
  ClientMetric counter;
  counter.label = {{"reason", "a \"quoted\" \\ value\nof two lines"}};
  counter.counter.value = 12345678;
  ClientMetric gauge;
  gauge.gauge.value = 0.25;
  const std::vector<MetricFamily> families = {
      {"requests_total", "Requests.", MetricType::Counter, {counter, counter}},
      {"usage", "Share in use.", MetricType::Gauge, {gauge}},
      HistogramFamily()};
  std::vector<MetricFamily> labelled = families;
  for (MetricFamily& family : labelled) {
    for (ClientMetric& metric : family.metric) metric.label.push_back({"engine", "0"});
  }
  std::ostringstream expected;
  prometheus::TextSerializer().Serialize(expected, labelled);
  EXPECT_EQ(ExposeFamilies(families, {{"engine", "0"}}), expected.str());
}

TEST(ExpositionTest, LinesAreThoseOfTheFormat) {
  EXPECT_EQ(ExposeFamilies({HistogramFamily()}, {{"engine", "0"}}),
            "# HELP seconds How long.\n"
            "# TYPE seconds histogram\n"
            "seconds_count{engine=\"0\"} 7\n"
            "seconds_sum{engine=\"0\"} 1.5\n"
            "seconds_bucket{engine=\"0\",le=\"0.001\"} 3\n"
            "seconds_bucket{engine=\"0\",le=\"2.5\"} 5\n"
            "seconds_bucket{engine=\"0\",le=\"+Inf\"} 7\n");
}

}  // namespace
}  // namespace octavo::server
