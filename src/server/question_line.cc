#include "server/question_line.h"

#include <fmt/format.h>

#include <utility>

namespace octavo::server {

QuestionLine::QuestionLine(size_t num_turns, size_t capacity, std::string who_wait)
    : num_turns_(num_turns),
      capacity_(capacity),
      who_wait_(std::move(who_wait)),
      workers_(num_turns) {}

std::optional<QuestionLine::Place> QuestionLine::Enter(const std::shared_ptr<Waiter>& waiter) {
  if (num_places_taken_ == capacity_) return std::nullopt;
  ++num_places_taken_;
  waiting_.push_back(waiter);
  GiveTurns();
  return std::optional<Place>(std::in_place, *this, *waiter);
}

void QuestionLine::Exit(const Waiter& waiter) {
  --num_places_taken_;
  if (waiter.has_turn) {
    --num_turns_taken_;
  } else {
    StopWaiting(waiter);
  }
  GiveTurns();
}

void QuestionLine::Leave(Waiter& waiter) {
  waiter.has_left = true;
  StopWaiting(waiter);  // a turn now would keep it until the engine answers
  waiter.flag->Raise();
}

void QuestionLine::StopWaiting(const Waiter& waiter) {
  std::erase_if(waiting_, [&](const auto& other) { return other.get() == &waiter; });
}

void QuestionLine::GiveTurns() {
  while (num_turns_taken_ < num_turns_ && !waiting_.empty()) {
    ++num_turns_taken_;
    waiting_.front()->has_turn = true;
    waiting_.front()->flag->Raise();
    waiting_.pop_front();
  }
}

ApiError QuestionLine::NoPlace() const {
  return TooManyRequests(
      fmt::format("{} {}, which is the most; try again later", num_places_taken_, who_wait_));
}

}  // namespace octavo::server
