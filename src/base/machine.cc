#include "base/machine.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <functional>
#include <limits>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

#include "base/checked_math.h"

namespace octavo::base {
namespace {

// The controllers that a cgroup v1 limit is looked up under, and the groups of this process.
struct CgroupEntry {
  bool is_v2 = false;
  std::string controllers;  // v1: "memory" or "cpu,cpuacct"
  std::string group;        // "/user.slice/..."
};

std::optional<int64_t> ParseInteger(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::string> ReadFirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

// Lines of /proc/self/cgroup: "0::/group" (v2) or "7:cpu,cpuacct:/group" (v1).
std::vector<CgroupEntry> ReadCgroups(const SystemPaths& paths) {
  std::vector<CgroupEntry> entries;
  std::ifstream file(paths.proc + "/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    entries.push_back({controllers.empty(), controllers, line.substr(second + 1)});
  }
  return entries;
}

// Visits the folder of the group and of each of its ancestors up to the mount point: a limit of any
// of them binds. A group path from outside a container does not exist below the mount; its
// ancestors, the mount itself at last, do.
void ForEachLevel(const std::string& mount, std::string group,
                  const std::function<void(const std::string&)>& visit) {
  while (!group.empty() && group != "/") {
    visit(mount + group);
    group.erase(group.find_last_of('/'));
  }
  visit(mount);
}

bool HasController(const CgroupEntry& entry, std::string_view controller) {
  const auto names = Split(entry.controllers, ',');
  return std::find(names.begin(), names.end(), controller) != names.end();
}

template <class T>
void KeepSmaller(std::optional<T>& best, std::optional<T> candidate) {
  if (candidate && (!best || *candidate < *best)) best = candidate;
}

std::optional<int64_t> ReadMemoryLimit(const std::string& path) {
  // Version 1 writes "no limit" as the largest multiple of the page size; anything of that order is
  // none.
  constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max() / 2;
  const auto line = ReadFirstLine(path);
  const auto limit = line ? ParseInteger(*line) : std::nullopt;  // "max" is not an integer
  return limit && *limit > 0 && *limit < kNoLimit ? limit : std::nullopt;
}

std::optional<int64_t> CgroupMemoryLimit(const SystemPaths& paths) {
  std::optional<int64_t> limit;
  for (const CgroupEntry& entry : ReadCgroups(paths)) {
    if (entry.is_v2) {
      ForEachLevel(paths.cgroup, entry.group, [&](const std::string& folder) {
        KeepSmaller(limit, ReadMemoryLimit(folder + "/memory.max"));
      });
    } else if (HasController(entry, "memory")) {
      ForEachLevel(paths.cgroup + "/memory", entry.group, [&](const std::string& folder) {
        KeepSmaller(limit, ReadMemoryLimit(folder + "/memory.limit_in_bytes"));
      });
    }
  }
  return limit;
}

// Whole processors in `quota_us` of every `period_us`, at least 1.
std::optional<int64_t> WholeProcessors(std::optional<int64_t> quota_us,
                                       std::optional<int64_t> period_us) {
  if (!quota_us || !period_us || *quota_us <= 0 || *period_us <= 0) return std::nullopt;
  return std::max<int64_t>(1, *quota_us / *period_us);
}

// cpu.max: "max 100000" or "150000 100000".
std::optional<int64_t> ReadQuotaV2(const std::string& folder) {
  const auto line = ReadFirstLine(folder + "/cpu.max");
  if (!line) return std::nullopt;
  const auto fields = Split(*line, ' ');
  if (fields.size() != 2) return std::nullopt;
  return WholeProcessors(ParseInteger(fields[0]), ParseInteger(fields[1]));
}

std::optional<int64_t> ReadQuotaV1(const std::string& folder) {
  const auto quota = ReadFirstLine(folder + "/cpu.cfs_quota_us");
  const auto period = ReadFirstLine(folder + "/cpu.cfs_period_us");
  if (!quota || !period) return std::nullopt;
  return WholeProcessors(ParseInteger(*quota), ParseInteger(*period));
}

// "MemTotal:       16384 kB"
std::optional<int64_t> ParseMeminfoLine(const std::string& line, std::string_view key) {
  if (!line.starts_with(key)) return std::nullopt;
  std::istringstream stream(line.substr(key.size()));
  int64_t kibibytes = 0;
  if (!(stream >> kibibytes) || kibibytes < 0) return std::nullopt;
  return CheckedMultiply(kibibytes, int64_t{1024});
}

// "Max address space         2147483648           unlimited            bytes": the soft limit.
std::optional<int64_t> AddressSpaceLimit(const SystemPaths& paths) {
  constexpr std::string_view kKey = "Max address space";
  std::ifstream file(paths.proc + "/self/limits");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kKey)) continue;
    std::istringstream rest(line.substr(kKey.size()));
    std::string soft;
    rest >> soft;
    return ParseInteger(soft);  // nothing for "unlimited"
  }
  return std::nullopt;
}

// A line of /proc/self/status: "VmSize:   524288 kB".
std::optional<int64_t> ReadStatusBytes(const SystemPaths& paths, std::string_view field) {
  std::ifstream file(paths.proc + "/self/status");
  for (std::string line; std::getline(file, line);) {
    if (const auto bytes = ParseMeminfoLine(line, field)) return bytes;
  }
  return std::nullopt;
}

std::optional<int64_t> AddressSpaceLeft(const SystemPaths& paths) {
  // A stack and an allocator's arena for each thread, and some more of both.
  constexpr int64_t kReserve = int64_t{256} << 20;
  constexpr int64_t kReservePerThread = int64_t{80} << 20;
  const std::optional<int64_t> limit = AddressSpaceLimit(paths);
  if (!limit) return std::nullopt;
  const int64_t mapped = ReadStatusBytes(paths, "VmSize:").value_or(0);
  return std::max<int64_t>(*limit - mapped - kReserve - kReservePerThread * NumUsableProcessors(),
                           1);
}

int AffinityProcessors() {
  // The kernel's mask may be wider than cpu_set_t; grow until it fits.
  for (int num_bits = 1024; num_bits <= (1 << 20); num_bits *= 2) {
    std::vector<cpu_set_t> mask(CPU_ALLOC_SIZE(num_bits) / sizeof(cpu_set_t) + 1);
    const size_t mask_bytes = mask.size() * sizeof(cpu_set_t);
    if (sched_getaffinity(0, mask_bytes, mask.data()) == 0) {
      return std::max(1, CPU_COUNT_S(mask_bytes, mask.data()));
    }
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

int64_t MachineMemory::limit_bytes() const {
  std::optional<int64_t> smallest;
  if (total_bytes > 0) smallest = total_bytes;
  KeepSmaller(smallest, cgroup_limit_bytes);
  KeepSmaller(smallest, address_space_bytes);
  return smallest.value_or(0);
}

MachineMemory ReadMachineMemory(const SystemPaths& paths) {
  MachineMemory memory;
  std::ifstream file(paths.proc + "/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (const auto total = ParseMeminfoLine(line, "MemTotal:")) memory.total_bytes = *total;
    if (const auto free = ParseMeminfoLine(line, "MemAvailable:")) memory.available_bytes = *free;
  }
  memory.cgroup_limit_bytes = CgroupMemoryLimit(paths);
  memory.address_space_bytes = AddressSpaceLeft(paths);
  return memory;
}

std::optional<int64_t> PeakResidentBytes(const SystemPaths& paths) {
  return ReadStatusBytes(paths, "VmHWM:");
}

std::optional<int> CgroupProcessorQuota(const SystemPaths& paths) {
  std::optional<int64_t> quota;
  for (const CgroupEntry& entry : ReadCgroups(paths)) {
    if (entry.is_v2) {
      ForEachLevel(paths.cgroup, entry.group,
                   [&](const std::string& folder) { KeepSmaller(quota, ReadQuotaV2(folder)); });
    } else if (HasController(entry, "cpu")) {
      // The mount is named after all its controllers or after this one alone.
      for (const std::string& mount : {"/" + entry.controllers, std::string("/cpu")}) {
        ForEachLevel(paths.cgroup + mount, entry.group,
                     [&](const std::string& folder) { KeepSmaller(quota, ReadQuotaV1(folder)); });
      }
    }
  }
  if (!quota) return std::nullopt;
  return static_cast<int>(std::min<int64_t>(*quota, std::numeric_limits<int>::max()));
}

int NumUsableProcessors() {
  const int processors = AffinityProcessors();
  const auto quota = CgroupProcessorQuota();
  return quota ? std::min(processors, *quota) : processors;
}

}  // namespace octavo::base
