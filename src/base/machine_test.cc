#include "base/machine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace octavo::base {
namespace {

// A proc and a cgroup tree of the test's own.
class MachineTest : public testing::Test {
 protected:
  MachineTest() {
    std::string pattern = testing::TempDir() + "/octavo_machine_XXXXXX";
    root_ = mkdtemp(pattern.data());
    paths_ = {root_ + "/proc", root_ + "/cgroup"};
  }
  ~MachineTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  std::string root_;
  SystemPaths paths_;
};

TEST_F(MachineTest, ReadsRamInKibibytes) {
  Write("proc/meminfo", "MemTotal:  16384 kB\nMemFree:  5 kB\nMemAvailable:   8192 kB\n");

  const MachineMemory memory = ReadMachineMemory(paths_);

  EXPECT_EQ(memory.total_bytes, 16384 * 1024);
  EXPECT_EQ(memory.available_bytes, 8192 * 1024);
  EXPECT_EQ(memory.cgroup_limit_bytes, std::nullopt);
  EXPECT_EQ(memory.limit_bytes(), 16384 * 1024);
}

TEST_F(MachineTest, ThePeakOfTheResidentMemoryIsTheKernels) {
  EXPECT_EQ(PeakResidentBytes(paths_), std::nullopt);

  Write("proc/self/status", "Name:\toctavo\nVmPeak:\t 99 kB\nVmHWM:\t    2048 kB\n");

  EXPECT_EQ(PeakResidentBytes(paths_), 2048 * 1024);
}

TEST_F(MachineTest, ALimitOnTheAddressSpaceLeavesWhatIsNotMappedOrReserved) {
  Write("proc/meminfo", "MemTotal:  4194304 kB\n");
  Write("proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max open files            1024                 4096                 files     \n"
        "Max address space         2147483648           unlimited            bytes     \n");
  Write("proc/self/status", "Name:\toctavo\nVmSize:\t  524288 kB\n");
  const int64_t reserve_mib = 256 + 80 * NumUsableProcessors();
  EXPECT_EQ(ReadMachineMemory(paths_).limit_bytes(),
            std::max<int64_t>((2048 - 512 - reserve_mib) * (1 << 20), 1));

  Write("proc/self/limits", "Max address space         unlimited            unlimited   bytes\n");
  EXPECT_EQ(ReadMachineMemory(paths_).limit_bytes(), int64_t{4} << 30);

  Write("proc/self/limits", "Max address space         1000            unlimited   bytes\n");
  EXPECT_EQ(ReadMachineMemory(paths_).limit_bytes(), 1);
}

TEST_F(MachineTest, TheTightestAncestorsVersion2LimitBinds) {
  Write("proc/meminfo", "MemTotal:  16384 kB\n");
  Write("proc/self/cgroup", "0::/user/app/worker\n");
  Write("cgroup/user/app/worker/memory.max", "max\n");
  Write("cgroup/user/app/memory.max", "1000000\n");
  Write("cgroup/user/memory.max", "2000000\n");

  const MachineMemory memory = ReadMachineMemory(paths_);

  EXPECT_EQ(memory.cgroup_limit_bytes, 1000000);
  EXPECT_EQ(memory.limit_bytes(), 1000000);
}

TEST_F(MachineTest, AVersion1LimitIsReadFromTheMemoryHierarchy) {
  Write("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/abc\n1:name=systemd:/\n");
  Write("cgroup/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");  // "none"
  Write("cgroup/memory/memory.limit_in_bytes", "3000000\n");

  EXPECT_EQ(ReadMachineMemory(paths_).cgroup_limit_bytes, 3000000);
}

TEST_F(MachineTest, AGroupPathFromOutsideTheContainerFallsBackToTheMount) {
  Write("proc/self/cgroup", "0::/not/mounted/here\n");
  Write("cgroup/memory.max", "4000000\n");

  EXPECT_EQ(ReadMachineMemory(paths_).cgroup_limit_bytes, 4000000);
}

TEST_F(MachineTest, AVersion2QuotaIsRoundedDownToWholeProcessorsButNotToNone) {
  Write("proc/self/cgroup", "0::/app\n");
  Write("cgroup/app/cpu.max", "350000 100000\n");
  EXPECT_EQ(CgroupProcessorQuota(paths_), 3);

  Write("cgroup/app/cpu.max", "50000 100000\n");
  EXPECT_EQ(CgroupProcessorQuota(paths_), 1);

  Write("cgroup/app/cpu.max", "max 100000\n");
  EXPECT_EQ(CgroupProcessorQuota(paths_), std::nullopt);
}

TEST_F(MachineTest, AVersion1QuotaIsFoundUnderEitherMountName) {
  Write("proc/self/cgroup", "3:cpu,cpuacct:/app\n");
  Write("cgroup/cpu,cpuacct/app/cpu.cfs_quota_us", "200000\n");
  Write("cgroup/cpu,cpuacct/app/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CgroupProcessorQuota(paths_), 2);

  Write("cgroup/cpu,cpuacct/app/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(CgroupProcessorQuota(paths_), std::nullopt);

  Write("cgroup/cpu/cpu.cfs_quota_us", "100000\n");
  Write("cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CgroupProcessorQuota(paths_), 1);
}

TEST_F(MachineTest, NonsenseInTheKernelsFilesIsNoFigure) {
  Write("proc/meminfo", "MemTotal: many kB\nMemAvailable: 9223372036854775807 kB\n");
  Write("proc/self/cgroup", "nonsense\n::\n0::/app\n");
  Write("cgroup/app/memory.max", "12monkeys\n");
  Write("cgroup/app/cpu.max", "100000 0\n");

  const MachineMemory memory = ReadMachineMemory(paths_);

  EXPECT_EQ(memory.total_bytes, 0);
  EXPECT_EQ(memory.available_bytes, 0);
  EXPECT_EQ(memory.cgroup_limit_bytes, std::nullopt);
  EXPECT_EQ(CgroupProcessorQuota(paths_), std::nullopt);
}

TEST(ThisMachineTest, HasMemoryAndAProcessor) {
  EXPECT_GT(ReadMachineMemory().total_bytes, 0);
  EXPECT_GT(ReadMachineMemory().available_bytes, 0);
  EXPECT_LE(ReadMachineMemory().limit_bytes(), ReadMachineMemory().total_bytes);
  EXPECT_GE(NumUsableProcessors(), 1);
  EXPECT_LE(NumUsableProcessors(), static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace octavo::base
