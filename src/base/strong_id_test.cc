#include "octavo/strong_id.h"

#include <gtest/gtest.h>

#include <type_traits>
#include <unordered_set>

namespace octavo {
namespace {

using AppleId = StrongId<struct AppleTag>;
using PearId = StrongId<struct PearTag>;

static_assert(!std::is_convertible_v<uint32_t, AppleId>);
static_assert(!std::is_convertible_v<AppleId, uint32_t>);
static_assert(!std::is_constructible_v<AppleId, PearId>);
static_assert(!std::is_assignable_v<AppleId&, PearId>);
static_assert(sizeof(AppleId) == sizeof(uint32_t));

TEST(StrongIdTest, ComparesByValue) {
  EXPECT_EQ(AppleId(7), AppleId(7));
  EXPECT_NE(AppleId(7), AppleId(8));
  EXPECT_LT(AppleId(7), AppleId(8));
  EXPECT_EQ(AppleId(7).value(), 7u);
}

TEST(StrongIdTest, IsAKeyOfHashTables) {
  std::unordered_set<AppleId> apples{AppleId(1), AppleId(2), AppleId(1)};

  EXPECT_EQ(apples.size(), 2u);
}

}  // namespace
}  // namespace octavo
