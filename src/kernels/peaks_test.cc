// The bounds that kernels are measured against: all bytes are read, and the probes run here.

#include "kernels/peaks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string_view>
#include <vector>

namespace octavo::kernels {
namespace {

TEST(PeaksTest, EveryByteThatIsReadCountsInTheChecksum) {
  const ReadAll read = FastestRead();
  if (read == nullptr) GTEST_SKIP() << "no kernel runs on this processor";
  std::vector<std::byte> data(1024);
  const uint64_t zeros = read(data.data(), data.size());
  EXPECT_EQ(zeros, 0u);
  for (size_t i = 0; i < data.size(); ++i) {
    data[i] = std::byte{1};
    EXPECT_EQ(read(data.data(), data.size()), uint64_t{1} << (i % 8 * 8)) << i;
    data[i] = std::byte{0};
  }
}

TEST(PeaksTest, ProbesHaveNamesOfTheirOwnAndRun) {
  if (FastestRead() == nullptr) GTEST_SKIP() << "no kernel runs on this processor";
  std::set<std::string_view> names;
  for (const PeakProbe& probe : PeakProbes()) {
    EXPECT_TRUE(names.insert(probe.name).second) << probe.name;
    EXPECT_GT(probe.operations_per_step, 0);
    probe.run(10);
  }
  EXPECT_FALSE(names.empty());
}

}  // namespace
}  // namespace octavo::kernels
