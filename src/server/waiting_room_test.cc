// How many may wait at once.

#include "server/waiting_room.h"

#include <gtest/gtest.h>

#include <utility>

namespace octavo::server {
namespace {

TEST(WaitingRoomTest, WhoFindsNoPlaceIsToldHowManyWait) {
  WaitingRoom room(2, "prompts wait");
  const ApiResult<WaitingRoom::Place> first = room.Enter();
  const ApiResult<WaitingRoom::Place> second = room.Enter();
  EXPECT_TRUE(first.ok());
  EXPECT_TRUE(second.ok());

  const ApiResult<WaitingRoom::Place> third = room.Enter();

  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.error().status, 429);
  EXPECT_EQ(third.error().message, "2 prompts wait, which is the most; try again later");
}

TEST(WaitingRoomTest, APlaceIsGivenBackOnceWhoeverLeavesItFirst) {
  WaitingRoom room(1, "wait");
  {
    ApiResult<WaitingRoom::Place> place = room.Enter();
    ASSERT_TRUE(place.ok());
    const WaitingRoom::Place moved = *std::move(place);
    EXPECT_FALSE(room.Enter().ok());
  }
  {
    ApiResult<WaitingRoom::Place> place = room.Enter();
    ASSERT_TRUE(place.ok());
    place->Leave();
    place->Leave();
  }
  const ApiResult<WaitingRoom::Place> place = room.Enter();
  EXPECT_TRUE(place.ok());
  EXPECT_FALSE(room.Enter().ok());
}

}  // namespace
}  // namespace octavo::server
