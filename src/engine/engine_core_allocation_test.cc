// A steady decode step allocates nothing, from its plan to its last token id. This file counts what
// the whole test program allocates.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>

#include "engine/simulation/simulated_engine.h"
#include "engine/simulation/test_requests.h"

namespace {
std::atomic<int64_t> num_allocations{0};

void* Allocate(size_t size) {
  num_allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size == 0 ? 1 : size);
}
}  // namespace

[[gnu::noinline]] void* operator new(size_t size) {
  void* const memory = Allocate(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return Allocate(size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}

namespace octavo::engine {
namespace {

// Counts the tokens and drops them.
class CountingSink : public RequestSink {
 public:
  void OnDelta(const RequestDelta& delta) override { num_tokens_ += delta.token_ids.size(); }
  void OnEnd(RequestOutput) override {}
  size_t num_tokens() const { return num_tokens_; }

 private:
  size_t num_tokens_ = 0;
};

TEST(EngineCoreAllocationTest, ASteadyDecodeStepAllocatesNothing) {
  constexpr uint32_t kNumSequences = 64;
  Profiler profiler;
  profiler.Attach(1);
  for (const bool caches : {true, false}) {
    CoreOptions core = SimulatedCore(1024);
    core.cache.enable_prefix_caching = caches;
    core.profiler = caches ? &profiler : nullptr;
    SimulatedEngine engine(core);
    const auto sink = std::make_shared<CountingSink>();
    for (uint32_t i = 0; i < kNumSequences; ++i) {
      Request request = Greedy(PromptOf(20 + i % 16, i), 200);
      request.params.logprobs.reset();
      auto state = engine.core().Prepare(request, 1, sink);
      state->id = i + 1;
      engine.core().Add(std::move(state));
    }
    while (sink->num_tokens() < 16 * kNumSequences) engine.core().Step();
    const size_t num_tokens = sink->num_tokens();
    const int64_t before = num_allocations;
    EXPECT_GT(before, 0);  // they are counted

    for (int step = 0; step < 150; ++step) engine.core().Step();  // each takes nine new blocks

    EXPECT_EQ(num_allocations - before, 0);
    EXPECT_EQ(sink->num_tokens() - num_tokens, 150u * kNumSequences);
  }
}

}  // namespace
}  // namespace octavo::engine
