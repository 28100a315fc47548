// Counts heap allocations: a steady state has none. This file replaces operator new for the whole
// test program.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "kvcache/allocation_counter.h"
#include "kvcache/manager_fixture.h"

namespace {

std::atomic<size_t> num_allocations{0};

[[gnu::noinline]] void* CountedAllocation(size_t num_bytes) {
  ++num_allocations;
  void* const memory = std::malloc(num_bytes == 0 ? 1 : num_bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

[[gnu::noinline]] void* operator new(size_t num_bytes) { return CountedAllocation(num_bytes); }
[[gnu::noinline]] void* operator new[](size_t num_bytes) { return CountedAllocation(num_bytes); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace octavo::kvcache {

size_t NumAllocations() { return num_allocations; }

namespace {

class AllocationTest : public ManagerFixture {
 protected:
  // One life in a full pool: hits, copies, evictions, decode steps, a rollback, the end.
  void Live(CachedSequence& sequence, std::vector<int32_t>& tokens, size_t prompt_length) {
    tokens.resize(prompt_length);
    ASSERT_TRUE(
        manager_->Acquire(sequence, tokens, static_cast<int64_t>(prompt_length) - 1, &copies_));
    Compute(sequence, tokens);
    for (int32_t output = 0; output < 20; ++output) {
      tokens.push_back(output);
      Compute(sequence, tokens);
    }
    manager_->Truncate(sequence, static_cast<int64_t>(prompt_length) + 3);
    tokens.resize(prompt_length + 3);
    tokens.push_back(777);
    Compute(sequence, tokens);
    sequence.Reset();
    copies_.clear();
  }
};

TEST_F(AllocationTest, ASteadyStateAllocatesNothing) {
  for (const auto eviction : {EvictionPolicyKind::kLru, EvictionPolicyKind::kCostAware}) {
    Make(32, eviction);
    copies_.reserve(64);
    CachedSequence sequence = manager_->NewSequence(kRoot);
    std::vector<int32_t> tokens = Tokens(0, 200);
    PinId pin;

    const size_t before = NumAllocations();
    for (int32_t i = 0; i < 200; ++i) {
      tokens[static_cast<size_t>(i % 30)] = 1000 + i;  // shares i % 30 tokens with the one before
      Live(sequence, tokens, 60 + static_cast<size_t>(i % 40));
      manager_->SetNow(i);
      static_cast<void>(manager_->Pin(kRoot, tokens, 5, &pin));
      static_cast<void>(manager_->Match(kRoot, tokens, 50));
      if (i % 7 == 0) manager_->YieldPins(3);
    }

    EXPECT_EQ(NumAllocations(), before);
    EXPECT_GT(manager_->stats().num_evictions, 100u);
    EXPECT_GT(manager_->stats().num_copies, 100u);
  }
}

}  // namespace
}  // namespace octavo::kvcache
