#include "server/exposition.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <string_view>

#include "base/check.h"

namespace octavo::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr size_t kTypicalBytes = 64 << 10;

std::string_view TypeName(MetricType type) {
  switch (type) {
    case MetricType::Counter:
      return "counter";
    case MetricType::Gauge:
      return "gauge";
    case MetricType::Histogram:
      return "histogram";
    default:
      break;
  }
  OCTAVO_CHECK(false, "a counter, a gauge or a histogram");
  return {};
}

void AppendEscaped(std::string_view text, bool is_label, std::string* out) {
  for (const char c : text) {
    if (c == '\n') {
      *out += "\\n";
      continue;
    }
    if (c == '\\' || (c == '"' && is_label)) *out += '\\';
    *out += c;
  }
}

// name="value",name="value" without braces.
std::string LabelText(const std::vector<ClientMetric::Label>& labels) {
  std::string text;
  for (const ClientMetric::Label& label : labels) {
    if (!text.empty()) text += ',';
    text += label.name;
    text += "=\"";
    AppendEscaped(label.value, /*is_label=*/true, &text);
    text += '"';
  }
  return text;
}

void AppendNumber(double value, std::string* out) {
  if (std::isnan(value)) {
    *out += "NaN";
  } else if (std::isinf(value)) {
    *out += value > 0 ? "+Inf" : "-Inf";
  } else {
    fmt::format_to(std::back_inserter(*out), "{}", value);
  }
}

class FamilyWriter {
 public:
  FamilyWriter(const MetricFamily& family, std::string* out) : family_(family), out_(*out) {}

  void Write(const std::string& common_labels) {
    out_ += "# HELP " + family_.name + " ";
    AppendEscaped(family_.help, /*is_label=*/false, &out_);
    out_ += "\n# TYPE " + family_.name + " ";
    out_ += TypeName(family_.type);
    out_ += '\n';
    for (const ClientMetric& metric : family_.metric) {
      labels_ = LabelText(metric.label);
      if (!labels_.empty() && !common_labels.empty()) labels_ += ',';
      labels_ += common_labels;
      WriteMetric(metric);
    }
  }

 private:
  void WriteMetric(const ClientMetric& metric) {
    switch (family_.type) {
      case MetricType::Counter:
        return WriteLine("", "", metric.counter.value);
      case MetricType::Gauge:
        return WriteLine("", "", metric.gauge.value);
      case MetricType::Histogram:
        return WriteHistogram(metric.histogram);
      default:
        break;
    }
  }

  void WriteHistogram(const ClientMetric::Histogram& histogram) {
    WriteLine("_count", "", static_cast<double>(histogram.sample_count));
    WriteLine("_sum", "", histogram.sample_sum);
    const char* separator = labels_.empty() ? "" : ",";
    for (const ClientMetric::Bucket& bucket : histogram.bucket) {
      std::string bound = separator;
      bound += "le=\"";
      AppendNumber(bucket.upper_bound, &bound);
      bound += '"';
      WriteLine("_bucket", bound, static_cast<double>(bucket.cumulative_count));
    }
  }

  void WriteLine(std::string_view suffix, std::string_view more_labels, double value) {
    out_ += family_.name;
    out_ += suffix;
    out_ += '{';
    out_ += labels_;
    out_ += more_labels;
    out_ += "} ";
    AppendNumber(value, &out_);
    out_ += '\n';
  }

  const MetricFamily& family_;
  std::string& out_;
  std::string labels_;
};

}  // namespace

std::string ExposeFamilies(const std::vector<MetricFamily>& families,
                           const std::vector<ClientMetric::Label>& labels) {
  const std::string common_labels = LabelText(labels);
  std::string text;
  text.reserve(kTypicalBytes);
  for (const MetricFamily& family : families) FamilyWriter(family, &text).Write(common_labels);
  return text;
}

}  // namespace octavo::server
