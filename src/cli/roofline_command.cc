#include "cli/roofline_command.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <set>

#include "base/machine.h"
#include "cli/option_values.h"
#include "cli/streams.h"

namespace octavo::cli {
namespace {

constexpr char kRooflineExamples[] =
    R"(Read: all threads read working sets of their own, again and again. Peak: multiplications in
registers; a multiply-accumulate counts as two operations. The best of five passes.

Examples:
  octavo bench roofline
  octavo bench roofline --threads 1 --json
)";

constexpr char kKernelsExamples[] =
    R"(Share: the time that the bytes of weights (attention: of K and V), or the operations, need at
the machine's bounds (see octavo bench roofline), whichever is more, through the time taken; above
100 % is noise, or a cache that holds the weights. 1 row is decode, 512 are prefill; attention's
outputs x inputs are query heads x context, and 16 rows of a prompt are attended together.

Examples:
  octavo bench kernels
  octavo bench kernels --simd avx2 --threads 1
)";

constexpr int kMaxThreads = 1024;

Status CheckOptions(int threads, double seconds) {
  if (threads < 1 || threads > kMaxThreads) {
    return Status::InvalidArgument(
        fmt::format("--threads is {}, but must be from 1 to {}", threads, kMaxThreads));
  }
  if (!(seconds > 0 && seconds <= 60)) {
    return Status::InvalidArgument(
        fmt::format("--seconds is {}, but must be more than 0 and at most 60", seconds));
  }
  return Status::Ok();
}

std::string SizeText(int64_t bytes) {
  return bytes < (1 << 20) ? fmt::format("{} KiB", bytes >> 10)
                           : fmt::format("{} MiB", bytes >> 20);
}

std::string ToText(const bench::Roofline& roofline) {
  std::string text = "read, of each thread   threads      GB/s\n";
  for (const bench::ReadRate& rate : roofline.reads) {
    text += fmt::format("{:>20}   {:7}   {:7.1f}\n", SizeText(rate.bytes_per_thread), rate.threads,
                        rate.bytes_per_s * 1e-9);
  }
  text += "\npeak                   threads     GOP/s\n";
  for (const bench::PeakRate& rate : roofline.peaks) {
    text += fmt::format("{:20}   {:7}   {:7.0f}\n", rate.name, rate.threads,
                        rate.operations_per_s * 1e-9);
  }
  return text;
}

std::string ToJson(const bench::Roofline& roofline) {
  boost::json::array reads;
  for (const bench::ReadRate& rate : roofline.reads) {
    reads.push_back({{"bytes_per_thread", rate.bytes_per_thread},
                     {"threads", rate.threads},
                     {"bytes_per_s", rate.bytes_per_s}});
  }
  boost::json::array peaks;
  for (const bench::PeakRate& rate : roofline.peaks) {
    peaks.push_back({{"name", rate.name},
                     {"threads", rate.threads},
                     {"operations_per_s", rate.operations_per_s}});
  }
  const boost::json::object object{{"reads", std::move(reads)}, {"peaks", std::move(peaks)}};
  return boost::json::serialize(object) + "\n";
}

boost::json::object ToJson(const bench::KernelRate& rate) {
  return {{"product", rate.product},
          {"format", rate.format},
          {"num_outputs", rate.num_outputs},
          {"num_inputs", rate.num_inputs},
          {"num_rows", rate.num_rows},
          {"bytes_per_s", rate.bytes_per_s},
          {"operations_per_s", rate.operations_per_s},
          {"share_of_bound", rate.share},
          {"bound", rate.memory_bound ? "memory" : "operations"}};
}

}  // namespace

RooflineBench::RooflineBench(CLI::App& app) {
  AddNumber(app, "--threads", threads_, "Threads (default: 1, and all that this process may use)");
  AddNumber(app, "--seconds", seconds_, "Seconds for each figure (default 0.2)");
  app.add_flag("--json", json_, "Print one JSON object");
  app.footer(kRooflineExamples);
}

Status RooflineBench::Run() {
  const int all = base::NumUsableProcessors();
  if (Status status = CheckOptions(threads_.value_or(all), seconds_); !status.ok()) return status;
  const std::set<int> counts = threads_ ? std::set<int>{*threads_} : std::set<int>{1, all};
  const Result<bench::Roofline> roofline =
      bench::MeasureRoofline({{counts.begin(), counts.end()}, bench::UsualWorkingSets(), seconds_});
  if (!roofline.ok()) return roofline.status();
  return WriteStdout(json_ ? ToJson(*roofline) : ToText(*roofline));
}

KernelsBench::KernelsBench(CLI::App& app) {
  AddNumber(app, "--threads", threads_, "Threads (default: all that this process may use)");
  app.add_option("--simd", options_.isa, "avx512, avx2 or neon (default: the best there is)")
      ->type_name("NAME");
  AddNumber(app, "--seconds", options_.seconds_per_figure, "Seconds for each figure (default 0.2)");
  app.add_flag("--json", json_, "Print one JSON object");
  app.footer(kKernelsExamples);
}

Status KernelsBench::Run() {
  options_.threads = threads_.value_or(base::NumUsableProcessors());
  if (Status status = CheckOptions(options_.threads, options_.seconds_per_figure); !status.ok()) {
    return status;
  }
  std::string isa;
  const Status status = bench::MeasureKernelRates(options_, &isa, [&](const auto& rate) {
    if (!json_ && rates_.empty()) ShowHeading(isa);
    if (!json_) ShowRow(rate);
    rates_.push_back(rate);
  });
  if (!status.ok() || !json_) return status;
  boost::json::array rows;
  for (const bench::KernelRate& rate : rates_) rows.push_back(ToJson(rate));
  const boost::json::object object{
      {"simd", isa}, {"threads", options_.threads}, {"kernels", std::move(rows)}};
  return WriteStdout(boost::json::serialize(object) + "\n");
}

void KernelsBench::ShowHeading(const std::string& isa) const {
  WriteStdout(
      fmt::format("{}, {} threads\n"
                  "product    format    outputs x inputs   rows      GB/s     GOP/s   share "
                  "of the bound\n",
                  isa, options_.threads))
      .ok();
}

void KernelsBench::ShowRow(const bench::KernelRate& rate) const {
  WriteStdout(fmt::format("{:9}  {:8}  {:>7} x {:<6}   {:4}   {:7.1f}   {:7.0f}   {:4.0f} % {}\n",
                          rate.product, rate.format, rate.num_outputs, rate.num_inputs,
                          rate.num_rows, rate.bytes_per_s * 1e-9, rate.operations_per_s * 1e-9,
                          100 * rate.share, rate.memory_bound ? "memory" : "operations"))
      .ok();
}

}  // namespace octavo::cli
