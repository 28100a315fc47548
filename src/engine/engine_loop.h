#pragma once

// Purpose:    the engine thread: it takes what other threads hand in, and steps the core while
//             there is work.
// Ownership:  owns the thread; borrows the core, which nobody else touches meanwhile.
// Threading:  every method may be called by any thread but the engine's own; AbortAll also from a
//             signal handler.
// Invariants: what is handed in is done between steps, in order. With nothing to do the thread
//             sleeps. The destructor aborts what still runs.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/engine_core.h"

namespace octavo::engine {

class EngineLoop {
 public:
  explicit EngineLoop(EngineCore& core);
  ~EngineLoop();
  EngineLoop(const EngineLoop&) = delete;
  EngineLoop& operator=(const EngineLoop&) = delete;

  // Takes the request over, and gives it an id.
  RequestId Submit(std::unique_ptr<RequestState> request);
  void Abort(RequestId id);
  // Ends every request that was submitted before this call. Async-signal-safe.
  void AbortAll() { abort_epoch_.fetch_add(1, std::memory_order_release); }

  // Runs `task` on the engine thread between two steps, and waits for it.
  void Call(const std::function<void(EngineCore&)>& task);
  // As of the last step; never waits for a step.
  EngineStats stats() const;

 private:
  using Task = std::function<void(EngineCore&)>;

  void HandIn(Task task);
  void Run();
  bool TakeTasks(bool may_wait);
  void PublishStats();

  EngineCore& core_;
  std::atomic<uint64_t> abort_epoch_{1};
  std::atomic<RequestId> next_id_{1};

  std::mutex inbox_mutex_;
  std::condition_variable inbox_filled_;
  std::vector<Task> inbox_;  // guarded by inbox_mutex_
  bool stopping_ = false;    // guarded by inbox_mutex_
  std::atomic<bool> inbox_has_tasks_{false};
  std::vector<Task> taken_;  // the engine thread's

  mutable std::mutex stats_mutex_;
  EngineStats stats_;  // guarded by stats_mutex_

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace octavo::engine
