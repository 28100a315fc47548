#pragma once

// Purpose:    what this process may use of the machine: memory (RAM and cgroup limits) and
//             processors.
// Ownership:  plain values.
// Threading:  any; every call reads the system anew.
// Invariants: a figure that the system does not tell is absent or conservative, never invented.

#include <cstdint>
#include <optional>
#include <string>

namespace octavo::base {

// Where the kernel's files lie. Tests point this at a folder of their own.
struct SystemPaths {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
};

struct MachineMemory {
  int64_t total_bytes = 0;  // RAM; 0 if unknown
  int64_t available_bytes =
      0;  // the kernel's estimate of what can be had without swapping; 0 if unknown
  std::optional<int64_t>
      cgroup_limit_bytes;  // the tightest limit of this process's cgroup and its ancestors

  // What is left of a limit on the address space (ulimit -v), beside what is mapped already and
  // what threads and allocators map without using it; absent without a limit.
  std::optional<int64_t> address_space_bytes;

  // The smallest of those that are known; 0 if none is.
  int64_t limit_bytes() const;
};

MachineMemory ReadMachineMemory(const SystemPaths& paths = {});

// The most RAM that this process has held so far (VmHWM); absent if the system does not tell.
std::optional<int64_t> PeakResidentBytes(const SystemPaths& paths = {});

// Processors' worth of time that the cgroup (v1 or v2) grants, rounded down, at least 1; absent if
// it sets no quota.
std::optional<int> CgroupProcessorQuota(const SystemPaths& paths = {});

// The smaller of this process's affinity mask and its cgroup's quota; at least 1.
int NumUsableProcessors();

}  // namespace octavo::base
