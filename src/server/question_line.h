#pragma once

// Purpose:    questions that the engine answers between two steps: a few ask it at once, each on a
//             worker; a bounded number waits for its turn, first come, first served.
// Ownership:  owns the workers; those who ask borrow the line, which outlives them.
// Threading:  the I/O thread; what asks the engine runs on a worker.
// Invariants: at most `capacity` have a place, `num_turns` of them their turn. Whose client leaves
//             before its turn is gone at once; whose client leaves later keeps its place until the
//             engine has answered.

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>

#include "server/api_error.h"
#include "server/awaitable.h"
#include "server/exchange.h"
#include "server/signal_flag.h"

namespace octavo::server {

class QuestionLine {
 public:
  // `who_wait` is what the answer to those who find no place says after a number: "prompts wait to
  // be explained".
  QuestionLine(size_t num_turns, size_t capacity, std::string who_wait);
  QuestionLine(const QuestionLine&) = delete;
  QuestionLine& operator=(const QuestionLine&) = delete;

  // As many threads as there are turns.
  Workers& workers() { return workers_; }

  // Waits for a turn, calls ask() on a worker and gives its value. Nothing: there was no place,
  // which the client has been told (429), or the client has left.
  template <typename Ask>
  Awaitable<std::optional<std::invoke_result_t<Ask&>>> Put(Exchange& exchange, Ask& ask) {
    const std::shared_ptr<Waiter> waiter = std::make_shared<Waiter>(exchange.executor());
    const std::optional<Place> place = Enter(waiter);
    if (!place) {
      co_await exchange.Send(NoPlace().Response());
      co_return std::nullopt;
    }
    exchange.WatchClient([this, waiter] { Leave(*waiter); });
    while (!waiter->has_turn && !waiter->has_left) co_await waiter->flag->Wait();
    std::optional<std::invoke_result_t<Ask&>> value;
    if (waiter->has_turn) value = co_await Offload(workers_, ask);
    if (waiter->has_left) {
      exchange.account().status = 499;
      co_return std::nullopt;
    }
    co_return value;
  }

 private:
  struct Waiter {
    explicit Waiter(const asio::any_io_executor& executor)
        : flag(std::make_shared<SignalFlag>(executor)) {}

    std::shared_ptr<SignalFlag> flag;  // raised with either of these
    bool has_turn = false;
    bool has_left = false;
  };

  // Given back, with the turn, by destruction.
  class Place {
   public:
    Place(QuestionLine& line, const Waiter& waiter) : line_(line), waiter_(waiter) {}
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() { line_.Exit(waiter_); }

   private:
    QuestionLine& line_;
    const Waiter& waiter_;
  };

  // Nothing: there is none.
  std::optional<Place> Enter(const std::shared_ptr<Waiter>& waiter);
  void Exit(const Waiter& waiter);
  void Leave(Waiter& waiter);
  void StopWaiting(const Waiter& waiter);
  void GiveTurns();
  ApiError NoPlace() const;

  const size_t num_turns_;
  const size_t capacity_;
  const std::string who_wait_;
  Workers workers_;
  size_t num_places_taken_ = 0;
  size_t num_turns_taken_ = 0;
  std::deque<std::shared_ptr<Waiter>> waiting_;  // for their turn
};

}  // namespace octavo::server
