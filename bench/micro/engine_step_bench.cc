// The control plane's share of a step: plan, blocks, batch, commit, and the choice of a token for
// each sequence, on an executor that computes nothing. 256 sequences decode; the aim for a plan
// alone is 200 us.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/engine_core.h"
#include "kernels/kernel_table.h"

namespace octavo::engine {
namespace {

constexpr int32_t kVocabSize = 16;  // choosing a token shall cost next to nothing
constexpr int32_t kMaxModelLen = 4096;
constexpr int32_t kMaxTokens = 3000;

// Every token is 0.
class IdleExecutor : public StepExecutor {
 public:
  void CopyBlocks(std::span<const kvcache::BlockCopy>) override {}
  void SwapOut(std::span<const BlockMove>) override {}
  void SwapIn(std::span<const BlockMove>) override {}
  void Forward(const model::ForwardBatch&) override { seconds_ += 1e-3; }
  std::span<float> Logits(int64_t, int64_t count) override {
    return std::span(logits_).first(static_cast<size_t>(count * kVocabSize));
  }
  int64_t max_logits_rows() const override { return kRows; }
  int32_t vocab_size() const override { return kVocabSize; }
  const kernels::RowOpKernels& row_ops() const { return kernels::BestKernels()->rows; }
  double Now() const override { return seconds_; }

 private:
  static constexpr int64_t kRows = 256;
  std::vector<float> logits_ = std::vector<float>(kRows * kVocabSize);
  double seconds_ = 0.0;
};

class NoSink : public RequestSink {
 public:
  void OnDelta(const RequestDelta&) override {}
  void OnEnd(RequestOutput) override {}
};

// An engine whose sequences have computed their prompts. `num_shared`: prompt tokens that all of
// them have in common.
class DecodingEngine {
 public:
  DecodingEngine(int64_t num_sequences, int64_t num_shared, bool enable_prefix_caching)
      : core_(OptionsFor(num_sequences, enable_prefix_caching), Context(), executor_) {
    for (int64_t i = 0; i < num_sequences; ++i) {
      Request request;
      request.prompt_token_ids.assign(static_cast<size_t>(num_shared), 1);
      for (int64_t bits = i, digit = 0; digit < 32; ++digit, bits /= 8) {
        request.prompt_token_ids.push_back(static_cast<TokenId>(bits % 8));
      }
      request.params.temperature = 0.0f;
      request.params.max_tokens = kMaxTokens;
      request.params.detokenize = false;
      auto state = core_.Prepare(std::move(request), 1, std::make_shared<NoSink>());
      state->id = static_cast<RequestId>(i) + 1;
      core_.Add(std::move(state));
    }
    while (core_.stats().num_generation_tokens < 2 * static_cast<uint64_t>(num_sequences)) {
      core_.Step();
    }
  }

  void Step() {
    core_.Step();
    core_.DeliverEnded();
    ++num_steps_;
  }
  // Nobody ends in the step that is ahead.
  bool goes_on() const { return num_steps_ + 16 < kMaxTokens; }

 private:
  static CoreOptions OptionsFor(int64_t num_sequences, bool enable_prefix_caching) {
    CoreOptions core;
    core.max_model_len = kMaxModelLen;
    core.cache.block_size_tokens = 16;
    core.cache.num_blocks = static_cast<uint32_t>(num_sequences) * core.blocks_per_context();
    core.cache.max_blocks_per_sequence = core.blocks_per_context();
    core.cache.enable_prefix_caching = enable_prefix_caching;
    core.limits.block_size_tokens = core.cache.block_size_tokens;
    core.limits.max_num_batched_tokens = 16384;
    core.limits.max_num_seqs = static_cast<uint32_t>(num_sequences);
    return core;
  }

  CompletionContext Context() const {
    CompletionContext context;
    context.vocab_size = kVocabSize;
    context.max_model_len = kMaxModelLen;
    context.row_ops = &executor_.row_ops();
    return context;
  }

  IdleExecutor executor_;
  EngineCore core_;
  int64_t num_steps_ = 0;
};

// Arguments: sequences, shared prompt tokens, prefix cache on.
void BM_DecodeStep(benchmark::State& state) {
  std::unique_ptr<DecodingEngine> engine;
  for (auto _ : state) {
    if (!engine || !engine->goes_on()) {
      state.PauseTiming();
      engine =
          std::make_unique<DecodingEngine>(state.range(0), state.range(1), state.range(2) != 0);
      state.ResumeTiming();
    }
    engine->Step();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_DecodeStep)
    ->ArgNames({"sequences", "shared", "cache"})
    ->ArgsProduct({{1, 64, 256}, {0, 512}, {0, 1}})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace octavo::engine

BENCHMARK_MAIN();
