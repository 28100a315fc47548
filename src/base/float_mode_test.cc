#include "base/float_mode.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <limits>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace octavo::base {
namespace {

// Through volatile, so that the product is formed at run time.
float Multiply(float a, float b) {
  volatile float x = a;
  volatile float y = b;
  return x * y;
}

// 1 + 2^-22 + 2^-46: rounded upward it is the float after 1 + 2^-22.
float SquareOfOneAndABit() { return Multiply(1.0f + 0x1p-23f, 1.0f + 0x1p-23f); }

TEST(ScopedFloatModeTest, RoundsToNearestInsideAndRestoresTheCallersRounding) {
  const float nearest = SquareOfOneAndABit();
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  const float upward = SquareOfOneAndABit();

  float inside = 0;
  {
    const ScopedFloatMode mode;
    inside = SquareOfOneAndABit();
  }

  const float restored = SquareOfOneAndABit();
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(nearest, 1.0f + 0x1p-22f);
  EXPECT_EQ(upward, 1.0f + 0x1p-22f + 0x1p-23f);
  EXPECT_EQ(inside, nearest);
  EXPECT_EQ(restored, upward);
}

#if defined(__x86_64__)
TEST(ScopedFloatModeTest, SubnormalsLiveInsideEvenIfTheCallerFlushesThem) {
  constexpr unsigned kFlushToZero = 0x8000;
  constexpr unsigned kDenormalsAreZero = 0x0040;
  constexpr float kSmallest = std::numeric_limits<float>::min();
  constexpr float kSubnormal = std::numeric_limits<float>::denorm_min();
  const unsigned callers = _mm_getcsr();
  _mm_setcsr(callers | kFlushToZero | kDenormalsAreZero);
  const float flushed = Multiply(kSmallest, 0.5f);

  float kept_result = 0;
  float kept_operand = 0;
  {
    const ScopedFloatMode mode;
    kept_result = Multiply(kSmallest, 0.5f);
    kept_operand = Multiply(kSubnormal, 0x1p100f);
  }

  const unsigned restored = _mm_getcsr();
  _mm_setcsr(callers);
  EXPECT_EQ(flushed, 0.0f);
  EXPECT_EQ(kept_result, 0x1p-127f);
  EXPECT_EQ(kept_operand, 0x1p-49f);
  EXPECT_EQ(restored & (kFlushToZero | kDenormalsAreZero), kFlushToZero | kDenormalsAreZero);
}
#endif

}  // namespace
}  // namespace octavo::base
