#pragma once

// Purpose:    the engine's requests behind one call of the API: one per prompt. Waits for their
//             pieces without holding a thread, and ends them when nobody wants them any more.
// Ownership:  owns the streams; destruction aborts what still runs.
// Threading:  the I/O thread; Start submits on a worker, and compiles only while somebody waits.
// Invariants: every piece of every request is given out once, in order for each completion; after
//             the last one the outputs are there.

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <vector>

#include "octavo/request_stream.h"
#include "server/exchange.h"
#include "server/service.h"
#include "server/signal_flag.h"

namespace octavo::server {

class Generation {
 public:
  Generation(Service& service, Exchange& exchange);
  ~Generation();
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  // An error: one was refused, and none runs.
  Awaitable<std::optional<ApiError>> Start(std::vector<Request> requests);

  struct Piece {
    size_t prompt_index = 0;
    RequestUpdate update;
  };
  // Waits for pieces and gives all that are there; none: it is over.
  Awaitable<std::vector<Piece>> Next();

  // Why it was over before its end.
  bool client_has_left() const { return fate_->client_has_left; }
  bool timed_out() const { return fate_->timed_out; }
  // REQUIRES: Next gave nothing, and the client is there. One per prompt, in order.
  std::vector<RequestOutput> TakeOutputs();

 private:
  // Shared with callbacks that may outlive this object.
  struct Fate {
    explicit Fate(const asio::any_io_executor& executor) : deadline(executor) {}
    std::atomic<bool> client_has_left = false;  // a worker asks, too
    std::atomic<bool> timed_out = false;
    bool is_cut_off() const { return client_has_left || timed_out; }
    asio::steady_timer deadline;
  };

  bool is_cut_off() const { return fate_->is_cut_off(); }
  bool all_have_ended() const;

  Service& service_;
  Exchange& exchange_;
  std::shared_ptr<SignalFlag> flag_;
  std::shared_ptr<Fate> fate_;
  std::vector<std::unique_ptr<RequestStream>> streams_;
};

}  // namespace octavo::server
