// A steady decode step allocates nothing, from its plan to its last token id: neither the core on a
// simulated model, nor a model on its compute threads. This file counts every operator new of the
// test program.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "engine/model_executor.h"
#include "engine/simulation/simulated_engine.h"
#include "engine/simulation/test_requests.h"
#include "model/test_model_file.h"

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
[[gnu::noinline]] void* operator new(size_t size, std::align_val_t alignment) {
  num_allocations.fetch_add(1, std::memory_order_relaxed);
  const auto boundary = static_cast<size_t>(alignment);
  void* const memory = std::aligned_alloc(boundary, (size + boundary - 1) / boundary * boundary);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t, std::align_val_t) noexcept {
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

// `request_of(i)` for each of `num_sequences`, which all decode in every step that is counted.
template <typename RequestOf>
void ExpectNoAllocation(EngineCore& core, uint32_t num_sequences, RequestOf request_of) {
  constexpr size_t kNumSteps = 150;
  const auto sink = std::make_shared<CountingSink>();
  for (uint32_t i = 0; i < num_sequences; ++i) {
    Request request = request_of(i);
    request.params.logprobs.reset();
    auto state = core.Prepare(request, 1, sink);
    state->id = i + 1;
    core.Add(std::move(state));
  }
  while (sink->num_tokens() < 16 * num_sequences) core.Step();
  const size_t num_tokens = sink->num_tokens();
  const int64_t before = num_allocations;
  EXPECT_GT(before, 0);  // they are counted

  for (size_t step = 0; step < kNumSteps; ++step) core.Step();

  EXPECT_EQ(num_allocations - before, 0);
  EXPECT_EQ(sink->num_tokens() - num_tokens, kNumSteps * num_sequences);
}

TEST(EngineCoreAllocationTest, ASteadyDecodeStepAllocatesNothing) {
  Profiler profiler;
  profiler.Attach(1);
  for (const bool caches : {true, false}) {
    CoreOptions core = SimulatedCore(1024);
    core.cache.enable_prefix_caching = caches;
    core.profiler = caches ? &profiler : nullptr;
    SimulatedEngine engine(core);
    // Each step takes nine new blocks.
    ExpectNoAllocation(engine.core(), 64,
                       [](uint32_t i) { return Greedy(PromptOf(20 + i % 16, i), 200); });
  }
}

// An engine of the model of model/test_model_file.h, with a real store.
class TestModelEngine {
 public:
  TestModelEngine(const model::LoadedFile& file, const model::TestModelOptions& options)
      : model_(file, options),
        logits_(static_cast<size_t>(options.max_rows * file.config.vocab_size)),
        executor_(model_.model(), model_.store(), nullptr, logits_),
        core_(CoreOf(file, options), ContextOf(file), executor_) {}

  EngineCore& core() { return core_; }

 private:
  static CoreOptions CoreOf(const model::LoadedFile& file, const model::TestModelOptions& options) {
    CoreOptions core = SimulatedCore(static_cast<uint32_t>(options.num_blocks), options.block_size);
    core.max_model_len = file.config.context_length;
    core.limits.max_num_batched_tokens = options.max_rows;
    return core;
  }
  CompletionContext ContextOf(const model::LoadedFile& file) {
    CompletionContext context;
    context.eos_token_ids = kSimulatedEos;
    context.vocab_size = file.config.vocab_size;
    context.max_model_len = file.config.context_length;
    context.row_ops = &model_.model().kernels().rows;
    return context;
  }

  model::TestModel model_;
  std::vector<float> logits_;
  ModelExecutor executor_;
  EngineCore core_;
};

TEST(EngineCoreAllocationTest, NorDoesTheModelWhateverItsFormatsAndThreads) {
  for (const tensor::DType weights : {tensor::DType::kF32, tensor::DType::kQ8_0}) {
    const model::LoadedFile file(model::TestModelFile{weights});
    for (const kernels::KvDtype kv_dtype : {kernels::KvDtype::kFloat16, kernels::KvDtype::kInt8}) {
      for (const int num_threads : {1, 3}) {
        SCOPED_TRACE(::testing::Message()
                     << "weights " << static_cast<int>(weights) << ", K and V "
                     << static_cast<int>(kv_dtype) << ", threads " << num_threads);
        model::TestModelOptions options;
        options.num_threads = num_threads;
        options.num_blocks = 256;
        options.kv_dtype = kv_dtype;
        TestModelEngine engine(file, options);
        ExpectNoAllocation(engine.core(), 8, [](uint32_t i) {
          const std::vector<TokenId> prompt = PromptOf(40 + i, i % 3);  // some begin alike
          return i % 2 == 0 ? Greedy(prompt, 200) : Drawn(prompt, 200);
        });
      }
    }
  }
}

}  // namespace
}  // namespace octavo::engine
