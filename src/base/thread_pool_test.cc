#include "base/thread_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cfenv>
#include <cstdlib>
#include <new>
#include <numeric>
#include <thread>
#include <vector>

namespace {
std::atomic<int> num_allocations{0};
}  // namespace

// Counts what the whole test program allocates.
[[gnu::noinline]] void* operator new(size_t size) {
  num_allocations.fetch_add(1, std::memory_order_relaxed);
  void* const memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace octavo::base {
namespace {

TEST(ThreadPoolCreateTest, AThreadThatTheSystemRefusesIsAnErrorAndNotTheEnd) {
  pthread_attr_t former, endless;
  ASSERT_EQ(::pthread_getattr_default_np(&former), 0);
  ASSERT_EQ(::pthread_getattr_default_np(&endless), 0);
  ASSERT_EQ(::pthread_attr_setstacksize(&endless, size_t{1} << 50), 0);
  ASSERT_EQ(::pthread_setattr_default_np(&endless), 0);  // no address space holds such a stack

  const Result<std::unique_ptr<ThreadPool>> pool = ThreadPool::Create(3);

  ::pthread_setattr_default_np(&former);
  ::pthread_attr_destroy(&former);
  ::pthread_attr_destroy(&endless);
  ASSERT_FALSE(pool.ok());
  EXPECT_EQ(pool.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(pool.status().message(), testing::HasSubstr("threads is 3"));
}

class ThreadPoolTest : public testing::TestWithParam<int> {};

TEST_P(ThreadPoolTest, RunsTheFunctionOnceOnEachThread) {
  ThreadPool pool(GetParam());
  std::vector<int> num_calls(static_cast<size_t>(GetParam()));
  std::vector<std::thread::id> ids(num_calls.size());

  pool.Run([&](int thread_index) {
    ++num_calls[static_cast<size_t>(thread_index)];
    ids[static_cast<size_t>(thread_index)] = std::this_thread::get_id();
  });

  EXPECT_EQ(num_calls, std::vector<int>(num_calls.size(), 1));
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::unique(ids.begin(), ids.end()), ids.end()) << "two indices on one thread";
}

TEST_P(ThreadPoolTest, ManyShortRunsLoseNoWrite) {
  constexpr int kNumRuns = 3000;
  ThreadPool pool(GetParam());
  std::vector<int64_t> counts(static_cast<size_t>(GetParam()));

  for (int run = 1; run <= kNumRuns; ++run) {
    pool.Run([&](int thread_index) { ++counts[static_cast<size_t>(thread_index)]; });
    ASSERT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}), int64_t{run} * GetParam());
  }
}

TEST_P(ThreadPoolTest, ABarrierShowsEveryThreadWhatAllWroteBefore) {
  constexpr int kNumRounds = 2000;
  ThreadPool pool(GetParam());
  const auto num_threads = static_cast<size_t>(GetParam());
  std::vector<int> written(num_threads);
  std::vector<int> num_wrong(num_threads);

  pool.Run([&](int thread_index) {
    const auto self = static_cast<size_t>(thread_index);
    for (int round = 1; round <= kNumRounds; ++round) {
      written[self] = round;
      pool.Barrier();
      for (const int value : written) num_wrong[self] += value != round;
      pool.Barrier();
    }
  });

  EXPECT_EQ(num_wrong, std::vector<int>(num_threads, 0));
}

// 1 + 2^-22 + 2^-46, as this thread rounds it: 1 + 2^-22 to nearest or downward, the next float
// upward.
float SquareOfOneAndABit() {
  volatile float factor = 1.0f + 0x1p-23f;
  return factor * factor;
}

TEST_P(ThreadPoolTest, ComputesInTheContractsFloatModeWhateverTheCallersIs) {
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);  // workers would inherit it
  ThreadPool pool(GetParam());
  std::vector<float> squares(static_cast<size_t>(GetParam()));

  pool.Run(
      [&](int thread_index) { squares[static_cast<size_t>(thread_index)] = SquareOfOneAndABit(); });

  const float callers = SquareOfOneAndABit();
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(squares, std::vector<float>(squares.size(), 1.0f + 0x1p-22f));
  EXPECT_EQ(callers, 1.0f + 0x1p-22f + 0x1p-23f);
}

TEST_P(ThreadPoolTest, RunAllocatesNothingHoweverMuchTheFunctionCaptures) {
  ThreadPool pool(GetParam());
  std::array<int64_t, 64> captured{};
  captured[63] = 5;
  std::atomic<int64_t> sum{0};
  pool.Run([](int) {});

  const int before = num_allocations.load();
  pool.Run([captured, &sum, &pool](int) {
    pool.Barrier();
    sum.fetch_add(captured[63]);
  });
  const int after = num_allocations.load();

  EXPECT_EQ(after, before);
  EXPECT_EQ(sum.load(), 5 * GetParam());
}

TEST_P(ThreadPoolTest, IsDestroyedWithoutEverRunning) { const ThreadPool pool(GetParam()); }

INSTANTIATE_TEST_SUITE_P(NumThreads, ThreadPoolTest, testing::Values(1, 2, 3, 8),
                         testing::PrintToStringParamName());

TEST(ThreadPoolDeathTest, NeedsAThread) { EXPECT_DEATH(ThreadPool(0), "at least one thread"); }

}  // namespace
}  // namespace octavo::base
