#include "bench/roofline.h"

#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <memory>

#include "base/aligned_memory.h"
#include "base/thread_pool.h"
#include "bench/best_time.h"
#include "kernels/peaks.h"

namespace octavo::bench {
namespace {

Result<ReadRate> MeasureRead(base::ThreadPool& pool, int64_t bytes, double seconds) {
  const auto size = static_cast<size_t>(bytes);
  std::vector<base::AlignedBuffer> buffers(static_cast<size_t>(pool.num_threads()));
  for (base::AlignedBuffer& buffer : buffers) {
    buffer = base::AlignedBuffer::Allocate(size);
    if (!buffer) {
      return Status::ResourceExhausted(
          fmt::format("{} threads that read {} bytes each need more memory than there is",
                      buffers.size(), bytes));
    }
  }
  pool.Run([&](int thread) {  // its own pages, near it
    std::memset(buffers[static_cast<size_t>(thread)].data(), thread + 1, size);
  });
  std::atomic<uint64_t> sum = 0;
  const kernels::ReadAll read = kernels::FastestRead();
  const double best = BestSeconds(pool, seconds, [&](int thread) {
    sum += read(buffers[static_cast<size_t>(thread)].data(), size);
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
  Roofline roofline;
  for (const int threads : options.threads) {
    Result<std::unique_ptr<base::ThreadPool>> pool = base::ThreadPool::Create(threads);
    if (!pool.ok()) return pool.status();
    for (const int64_t bytes : options.working_sets) {
      Result<ReadRate> rate = MeasureRead(**pool, bytes, options.seconds_per_figure);
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
