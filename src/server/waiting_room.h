#pragma once

// Purpose:    a bound on how many of one kind may wait at once.
// Ownership:  a place borrows its room.
// Threading:  the I/O thread.
// Invariants: at most `capacity` places are taken; each is given back once, by Leave or
//             destruction.

#include <string>
#include <utility>

#include "server/api_error.h"

namespace octavo::server {

class WaitingRoom {
 public:
  // `who_wait` is what the answer to those who find no place says after a number: "prompts wait to
  // be explained".
  WaitingRoom(int capacity, std::string who_wait)
      : capacity_(capacity), who_wait_(std::move(who_wait)) {}
  WaitingRoom(const WaitingRoom&) = delete;
  WaitingRoom& operator=(const WaitingRoom&) = delete;

  class Place {
   public:
    explicit Place(WaitingRoom* room) : room_(room) { ++room_->num_waiting_; }
    Place(Place&& other) noexcept : room_(std::exchange(other.room_, nullptr)) {}
    Place& operator=(Place&&) = delete;
    ~Place() { Leave(); }

    void Leave() {
      if (WaitingRoom* room = std::exchange(room_, nullptr)) --room->num_waiting_;
    }

   private:
    WaitingRoom* room_;  // null: given back
  };
  // An error (429) when there is none.
  ApiResult<Place> Enter();

 private:
  const int capacity_;
  const std::string who_wait_;
  int num_waiting_ = 0;
};

}  // namespace octavo::server
