#include "engine/engine_loop.h"

#include <chrono>
#include <utility>

#include "base/float_mode.h"

namespace octavo::engine {

namespace {

// At rest: a pin whose time is over still counts for this long.
constexpr std::chrono::milliseconds kBetweenLooksAtPins(500);

}  // namespace

EngineLoop::EngineLoop(EngineCore& core) : core_(core) {
  stats_ = core.stats();
  thread_ = std::thread([this] { Run(); });
}

EngineLoop::~EngineLoop() {
  AbortAll();
  {
    const std::lock_guard lock(inbox_mutex_);
    stopping_ = true;
  }
  inbox_filled_.notify_one();
  thread_.join();
}

RequestId EngineLoop::Submit(std::unique_ptr<RequestState> request) {
  const RequestId id = next_id_.fetch_add(1, std::memory_order_relaxed);
  request->id = id;
  request->abort_epoch = abort_epoch_.load(std::memory_order_relaxed);
  // A std::function is copyable, and a request is not: the pointer changes hands inside.
  HandIn([raw = request.release()](EngineCore& core) {
    core.Add(std::unique_ptr<RequestState>(raw));
  });
  return id;
}

void EngineLoop::Abort(RequestId id) {
  HandIn([id](EngineCore& core) { core.Abort(id); });
}

void EngineLoop::Call(const std::function<void(EngineCore&)>& task) {
  std::mutex mutex;
  std::condition_variable done_changed;
  bool done = false;
  HandIn([&](EngineCore& core) {
    core.NoteTime();
    task(core);
    PublishStats();
    const std::lock_guard lock(mutex);
    done = true;
    done_changed.notify_one();
  });
  std::unique_lock lock(mutex);
  done_changed.wait(lock, [&done] { return done; });
}

EngineStats EngineLoop::stats() const {
  const std::lock_guard lock(stats_mutex_);
  return stats_;
}

void EngineLoop::HandIn(Task task) {
  {
    const std::lock_guard lock(inbox_mutex_);
    inbox_.push_back(std::move(task));
    inbox_has_tasks_.store(true, std::memory_order_release);
  }
  inbox_filled_.notify_one();
}

void EngineLoop::Run() {
  const base::ScopedFloatMode float_mode;  // for sampling and log-probabilities
  uint64_t seen_epoch = 1;
  while (true) {
    // Read before the inbox is: what was submitted before an abort that is seen here is taken now.
    const uint64_t epoch = abort_epoch_.load(std::memory_order_acquire);
    if (!TakeTasks(/*may_wait=*/!core_.has_work())) return;
    if (taken_.empty() && !core_.has_work()) core_.NoteTime();
    for (Task& task : taken_) task(core_);
    taken_.clear();
    if (epoch != seen_epoch) core_.AbortBefore(epoch);
    seen_epoch = epoch;
    if (core_.has_work()) core_.Step();
    PublishStats();
    core_.DeliverEnded();
  }
}

// Moves what was handed in, which may be nothing, to taken_; false once the loop is to end and
// nothing is left to do.
bool EngineLoop::TakeTasks(bool may_wait) {
  if (!may_wait && !inbox_has_tasks_.load(std::memory_order_acquire)) return true;
  std::unique_lock lock(inbox_mutex_);
  if (may_wait) {
    const auto is_called = [this] { return !inbox_.empty() || stopping_; };
    if (core_.cache().stats().num_pins == 0) {
      inbox_filled_.wait(lock, is_called);
    } else {
      inbox_filled_.wait_for(lock, kBetweenLooksAtPins, is_called);
    }
  }
  std::swap(inbox_, taken_);
  inbox_has_tasks_.store(false, std::memory_order_relaxed);
  return !(stopping_ && taken_.empty() && may_wait);
}

void EngineLoop::PublishStats() {
  const EngineStats now = core_.stats();
  const std::lock_guard lock(stats_mutex_);
  stats_ = now;
}

}  // namespace octavo::engine
