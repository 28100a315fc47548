#pragma once

// Purpose:    the compute threads: one function, run on all of them at once, with a barrier inside.
// Ownership:  owns its workers; the destructor stops and joins them.
// Threading:  Run is called by one thread at a time, never from within Run. Barrier is called
//             inside Run, the same number of times by every thread.
// Invariants: thread 0 is the caller of Run; what any thread wrote before a Barrier (or before Run
//             returns) is visible to all after it; every thread computes in ScopedFloatMode; Run
//             and Barrier allocate nothing and take no lock. Waiting spins shortly, then yields,
//             then sleeps, so that more threads than processors make progress and an idle pool
//             takes no processor.

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/float_mode.h"
#include "octavo/status.h"

namespace octavo::base {

class ThreadPool {
 public:
  // kResourceExhausted if the system refuses a thread. REQUIRES: num_threads >= 1. One thread needs
  // no workers.
  static Result<std::unique_ptr<ThreadPool>> Create(int num_threads);
  // As Create, but a thread that is refused ends the program.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return num_threads_; }

  // Calls f(thread_index) on all threads, thread_index in [0, num_threads), and returns when all
  // are done. f must not throw.
  template <class F>
  void Run(F&& f) {
    ScopedFloatMode float_mode;
    if (num_threads_ == 1) {
      f(0);
      return;
    }
    using Function = std::remove_reference_t<F>;
    RunJob({[](void* context, int thread_index) noexcept {
              (*static_cast<Function*>(context))(thread_index);
            },
            const_cast<void*>(static_cast<const void*>(std::addressof(f)))});
  }

  // Returns once every thread of the current Run has called it.
  void Barrier() {
    if (num_threads_ > 1) WaitAtBarrier();
  }

 private:
  struct Job {
    void (*invoke)(void* context, int thread_index) noexcept = nullptr;
    void* context = nullptr;
  };

  struct WithoutWorkers {};
  ThreadPool(int num_threads, WithoutWorkers);

  // False if the system refuses a thread; those that it gave are joined by the destructor.
  bool StartWorkers();
  void RunJob(Job job);
  void WaitAtBarrier();
  void WorkerLoop(int thread_index);

  static constexpr size_t kCacheLine = 64;

  const int num_threads_;
  int spin_limit_;  // pauses before a waiter starts to yield or sleep
  Job job_;         // written before generation_ is advanced, read after
  std::atomic<bool> stop_{false};
  alignas(kCacheLine) std::atomic<uint32_t> generation_{0};     // counts jobs; workers sleep on it
  alignas(kCacheLine) std::atomic<int> num_unfinished_{0};      // workers still in the current job
  alignas(kCacheLine) std::atomic<int> num_arrived_{0};         // threads waiting at the barrier
  alignas(kCacheLine) std::atomic<uint32_t> barrier_phase_{0};  // counts completed barriers
  alignas(kCacheLine) std::vector<std::thread> workers_;        // threads 1 .. num_threads - 1
};

}  // namespace octavo::base
