#pragma once

// Purpose:    the two ends of one request's stream: the engine thread puts pieces in, the caller
//             takes them out.
// Ownership:  StreamState is shared by both ends, either of which may go first.
// Threading:  StreamState is locked; each end is used by one thread.
// Invariants: as octavo/request_stream.h. What waits is bounded by the length of the output.

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "engine/completion.h"
#include "engine/engine_loop.h"
#include "octavo/engine.h"
#include "octavo/request_stream.h"

namespace octavo::engine {

class StreamState : public RequestSink {
 public:
  explicit StreamState(UpdateCallback on_update = nullptr) : on_update_(std::move(on_update)) {}

  void OnDelta(const RequestDelta& delta) override;
  void OnEnd(RequestOutput output) override;

  // Nothing once the request has ended and all is taken.
  std::optional<RequestUpdate> Next();
  std::optional<RequestUpdate> TryNext();
  bool has_ended() const;
  RequestOutput WaitForEnd();

 private:
  std::optional<RequestUpdate> TakeFirst();

  const UpdateCallback on_update_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<RequestUpdate> updates_;    // guarded by mutex_
  bool discards_ = false;                // guarded by mutex_; nobody will take updates any more
  std::optional<RequestOutput> output_;  // guarded by mutex_; present = ended
};

class Stream : public RequestStream {
 public:
  Stream(EngineLoop& loop, RequestId id, std::shared_ptr<StreamState> state)
      : loop_(loop), id_(id), state_(std::move(state)) {}
  ~Stream() override {
    if (!ended_) loop_.Abort(id_);
  }

  RequestId id() const override { return id_; }
  std::optional<RequestUpdate> Next() override;
  std::optional<RequestUpdate> TryNext() override { return state_->TryNext(); }
  bool has_ended() const override { return state_->has_ended(); }
  RequestOutput Finish() override;
  void Abort() override { loop_.Abort(id_); }

 private:
  EngineLoop& loop_;
  RequestId id_;
  std::shared_ptr<StreamState> state_;
  bool ended_ = false;  // as this end knows it
};

// Takes a stream to its end, piece by piece. When `on_delta` (which may be empty) returns false the
// request is aborted, and the output cut to what was delivered.
RequestOutput Deliver(RequestStream& stream, const DeltaCallback& on_delta);

}  // namespace octavo::engine
