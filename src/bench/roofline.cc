#include "bench/roofline.h"

#include <fmt/format.h>

#include <cstring>
#include <memory>

#include "base/aligned_memory.h"
#include "base/machine.h"
#include "base/thread_pool.h"
#include "bench/best_time.h"
#include "kernels/peaks.h"

namespace octavo::bench {
namespace {

// The value counts as used.
void KeepAlive(uint64_t value) { asm volatile("" : : "r"(value)); }

Result<ReadRate> MeasureRead(base::ThreadPool& pool, kernels::ReadAll read, int64_t bytes,
                             double seconds) {
  const auto size = static_cast<size_t>(bytes);
  std::vector<base::AlignedBuffer> buffers(static_cast<size_t>(pool.num_threads()));
  // What has no pages yet would be granted whatever its size, and end the process when written.
  const int64_t limit = base::ReadMachineMemory().limit_bytes();
  for (base::AlignedBuffer& buffer : buffers) {
    if (bytes <= limit / pool.num_threads()) buffer = base::AlignedBuffer::Allocate(size);
    if (!buffer) {
      return Status::ResourceExhausted(
          fmt::format("{} threads that read {} bytes each need more than the {} bytes of memory",
                      buffers.size(), bytes, limit));
    }
  }
  pool.Run([&](int thread) {  // large buffers get their pages here, near their thread
    std::memset(buffers[static_cast<size_t>(thread)].data(), thread + 1, size);
  });
  const double best = BestSeconds(pool, seconds, [&](int thread) {
    KeepAlive(read(buffers[static_cast<size_t>(thread)].data(), size));
  });
  return ReadRate{bytes, pool.num_threads(),
                  static_cast<double>(bytes) * pool.num_threads() / best};
}

PeakRate MeasurePeak(base::ThreadPool& pool, const kernels::PeakProbe& probe, double seconds) {
  constexpr int64_t kSteps = 10000;
  const double best = BestSeconds(pool, seconds, [&](int) { probe.run(kSteps); });
  const double operations = probe.operations_per_step * kSteps * pool.num_threads();
  return {std::string(probe.name), pool.num_threads(), operations / best};
}

}  // namespace

std::vector<int64_t> UsualWorkingSets() {
  std::vector<int64_t> sizes;
  for (int64_t size = 16 << 10; size <= int64_t{256} << 20; size *= 4) sizes.push_back(size);
  return sizes;
}

Result<Roofline> MeasureRoofline(const RooflineOptions& options) {
  const kernels::ReadAll read = kernels::FastestRead();
  if (read == nullptr) {
    return Status::Unavailable("this processor has no AVX2, which every kernel needs");
  }
  Roofline roofline;
  for (const int threads : options.threads) {
    Result<std::unique_ptr<base::ThreadPool>> pool = base::ThreadPool::Create(threads);
    if (!pool.ok()) return pool.status();
    for (const int64_t bytes : options.working_sets) {
      Result<ReadRate> rate = MeasureRead(**pool, read, bytes, options.seconds_per_figure);
      if (!rate.ok()) return rate.status();
      roofline.reads.push_back(*rate);
    }
    for (const kernels::PeakProbe& probe : kernels::PeakProbes()) {
      roofline.peaks.push_back(MeasurePeak(**pool, probe, options.seconds_per_figure));
    }
  }
  return roofline;
}

}  // namespace octavo::bench
