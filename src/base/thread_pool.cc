#include "base/thread_pool.h"

#include <fmt/format.h>
#include <sched.h>

#include <system_error>

#include "base/check.h"
#include "base/machine.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace octavo::base {
namespace {

// Pauses before a waiter gives its processor away: about ten microseconds when every thread can
// have a processor; next to none when threads outnumber processors, where the one that is waited
// for needs it.
// A yield costs well under a microsecond when nobody else wants the processor; on a busy machine,
// spinning holds it from the very thread that is waited for. Two threads on two processors that six
// times as many want: 22 us per barrier, 119 us with 2000 pauses; on an idle machine 0.2 us either
// way.
constexpr int kSpinsWithProcessors = 256;
constexpr int kSpinsWithout = 8;
// Yields before a waiter sleeps. They bridge the serial work between two jobs, since waking a
// sleeper costs some tens of microseconds; after them the other threads evidently lack processors,
// and a yield that never sleeps only takes turns with everybody else on the machine.
constexpr int kYieldsBeforeSleep = 200;

void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

// Returns when ready(value of `atomic`) is true: spins `spin_limit` pauses, then yields between
// looks, then sleeps until `atomic` is notified.
template <class T, class Ready>
void Await(const std::atomic<T>& atomic, int spin_limit, Ready ready) {
  for (int i = 0; i < spin_limit; ++i) {
    if (ready(atomic.load(std::memory_order_acquire))) return;
    Pause();
  }
  for (int i = 0; i < kYieldsBeforeSleep; ++i) {
    if (ready(atomic.load(std::memory_order_acquire))) return;
    sched_yield();
  }
  for (T value = atomic.load(std::memory_order_acquire); !ready(value);
       value = atomic.load(std::memory_order_acquire)) {
    atomic.wait(value, std::memory_order_acquire);
  }
}

}  // namespace

Result<std::unique_ptr<ThreadPool>> ThreadPool::Create(int num_threads) {
  std::unique_ptr<ThreadPool> pool(new ThreadPool(num_threads, WithoutWorkers()));
  if (!pool->StartWorkers()) {
    return Status::ResourceExhausted("threads is " + std::to_string(num_threads) +
                                     ", but the system refuses thread " +
                                     std::to_string(pool->workers_.size() + 2));
  }
  return pool;
}

ThreadPool::ThreadPool(int num_threads) : ThreadPool(num_threads, WithoutWorkers()) {
  OCTAVO_CHECK(StartWorkers(), "the system gives every thread");
}

ThreadPool::ThreadPool(int num_threads, WithoutWorkers /*tag*/)
    : num_threads_(num_threads),
      spin_limit_(num_threads <= NumUsableProcessors() ? kSpinsWithProcessors : kSpinsWithout) {
  OCTAVO_CHECK(num_threads >= 1, "a thread pool has at least one thread");
}

bool ThreadPool::StartWorkers() {
  workers_.reserve(static_cast<size_t>(num_threads_ - 1));
  try {
    for (int i = 1; i < num_threads_; ++i) workers_.emplace_back([this, i] { WorkerLoop(i); });
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::RunJob(Job job) {
  OCTAVO_DCHECK(num_unfinished_.load(std::memory_order_relaxed) == 0,
                "Run is called by one thread at a time, never from within Run");
  job_ = job;
  num_unfinished_.store(num_threads_ - 1, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  job.invoke(job.context, 0);
  Await(num_unfinished_, spin_limit_, [](int unfinished) { return unfinished == 0; });
}

void ThreadPool::WaitAtBarrier() {
  // The phase is read before arriving: it cannot advance until this thread has arrived.
  const uint32_t phase = barrier_phase_.load(std::memory_order_relaxed);
  if (num_arrived_.fetch_add(1, std::memory_order_acq_rel) == num_threads_ - 1) {
    num_arrived_.store(0, std::memory_order_relaxed);
    barrier_phase_.store(phase + 1, std::memory_order_release);
    barrier_phase_.notify_all();
    return;
  }
  Await(barrier_phase_, spin_limit_, [phase](uint32_t now) { return now != phase; });
}

void ThreadPool::WorkerLoop(int thread_index) {
  const ScopedFloatMode float_mode;
  uint32_t seen = 0;
  for (;;) {
    Await(generation_, spin_limit_, [seen](uint32_t now) { return now != seen; });
    ++seen;  // Run returns only when every worker is done, so none ever skips a generation
    if (stop_.load(std::memory_order_relaxed)) return;
    job_.invoke(job_.context, thread_index);
    if (num_unfinished_.fetch_sub(1, std::memory_order_release) == 1) num_unfinished_.notify_one();
  }
}

}  // namespace octavo::base
