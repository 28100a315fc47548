// The machine's bounds and the kernels' shares of them: every figure that was asked for, and none
// that cannot be.

#include "bench/roofline.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>

#include "bench/kernel_rates.h"
#include "kernels/kernel_table.h"
#include "kernels/peaks.h"

namespace octavo::bench {
namespace {

TEST(RooflineTest, EveryWorkingSetAndPeakIsMeasuredAtEveryNumberOfThreads) {
  const Result<Roofline> roofline =
      MeasureRoofline({{1, 2}, {16 << 10, 64 << 10}, /*seconds_per_figure=*/1e-3});
  ASSERT_TRUE(roofline.ok()) << roofline.status().message();
  std::set<std::tuple<int64_t, int>> reads;
  for (const ReadRate& rate : roofline->reads) {
    reads.emplace(rate.bytes_per_thread, rate.threads);
    EXPECT_GT(rate.bytes_per_s, 1e6);
  }
  EXPECT_EQ(reads, (std::set<std::tuple<int64_t, int>>{
                       {16 << 10, 1}, {16 << 10, 2}, {64 << 10, 1}, {64 << 10, 2}}));
  std::set<std::tuple<std::string, int>> peaks;
  for (const PeakRate& rate : roofline->peaks) {
    peaks.emplace(rate.name, rate.threads);
    EXPECT_GT(rate.operations_per_s, 1e6) << rate.name;
  }
  for (const kernels::PeakProbe& probe : kernels::PeakProbes()) {
    EXPECT_TRUE(peaks.contains({std::string(probe.name), 1})) << probe.name;
    EXPECT_TRUE(peaks.contains({std::string(probe.name), 2})) << probe.name;
  }
}

TEST(RooflineTest, MoreMemoryThanThereIsIsAnErrorThatNamesIt) {
  const Result<Roofline> roofline = MeasureRoofline({{1}, {int64_t{1} << 60}, 1e-3});
  ASSERT_FALSE(roofline.ok());
  EXPECT_NE(roofline.status().message().find("1152921504606846976"), std::string::npos);
}

TEST(KernelRatesTest, NamesThatThisProcessorCannotRunAreRefused) {
  std::string isa;
  const Status status = MeasureKernelRates({"riscv", 1, 1e-3, 0}, &isa, [](const KernelRate&) {});
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("riscv"), std::string::npos);
}

TEST(KernelRatesTest, EveryFormatOfWeightsAndCacheIsMeasuredForDecodeAndPrefill) {
  if (kernels::BestKernels() == nullptr) GTEST_SKIP() << "no kernels for this processor";
  std::string isa;
  std::set<std::tuple<std::string, int64_t>> seen;
  const Status status =
      MeasureKernelRates({{}, 1, 1e-4, 1 << 20}, &isa, [&](const KernelRate& rate) {
        seen.emplace(rate.format, rate.num_rows);
        EXPECT_GT(rate.share, 0) << rate.format;
        // Two operations for each weight, or element of K and V, of at most four bytes, in each
        // row.
        EXPECT_GE(rate.operations_per_s,
                  0.499 * rate.bytes_per_s * static_cast<double>(rate.num_rows));
      });
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(isa, kernels::BestKernels()->name);
  EXPECT_EQ(seen.size(), 14u * 4 + 4u * 2);
  EXPECT_TRUE(seen.contains({"int8", 16}));
}

}  // namespace
}  // namespace octavo::bench
