#include "server/waiting_room.h"

#include <fmt/format.h>

namespace octavo::server {

ApiResult<WaitingRoom::Place> WaitingRoom::Enter() {
  if (num_waiting_ < capacity_) return Place(this);
  return TooManyRequests(
      fmt::format("{} {}, which is the most; try again later", num_waiting_, who_wait_));
}

}  // namespace octavo::server
