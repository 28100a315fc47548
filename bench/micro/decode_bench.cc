// One decode step of many sequences with a common prefix of 1,024 tokens, on the default model (or
// OCTAVO_MODEL): their block tables name the same blocks (shared), or each its own copy (hidden).
// The time of one step is that of Model::Forward and Model::Logits of every row.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/environment.h"
#include "base/memory_ledger.h"
#include "base/thread_pool.h"
#include "formats/gguf_file.h"
#include "kernels/kernel_table.h"
#include "kvstore/kv_store.h"
#include "model/model.h"

namespace octavo::model {
namespace {

constexpr int32_t kBlockSize = 16;
constexpr int64_t kPrefixTokens = 1024;
constexpr int64_t kOwnTokens = 32;  // after the prefix, the row that is computed included
constexpr uint32_t kPrefixBlocks = kPrefixTokens / kBlockSize;
constexpr uint32_t kOwnBlocks = kOwnTokens / kBlockSize;

std::string ModelPath() {
  if (const auto path = base::ReadEnvironment("OCTAVO_MODEL")) return *path;
  return base::CacheDirectory().value_or(".") + "/SmolLM2-135M-Instruct.Q4_1.gguf";
}

// The model and a store in which every sequence has its blocks.
class Bench {
 public:
  Bench(int num_threads, int64_t num_sequences, bool shares)
      : threads_(num_threads), file_(formats::GgufFile::Open(ModelPath())) {
    OCTAVO_CHECK(file_.ok(), file_.status().message());
    const Result<ModelConfig> config = ReadModelConfig(*file_);
    OCTAVO_CHECK(config.ok(), config.status().message());
    ModelOptions options;
    options.kernels = kernels::BestKernels();
    options.max_rows = 512;
    options.max_output_rows = num_sequences;
    options.max_model_len = 2048;
    options.rope_model_len = 2048;
    Result<std::unique_ptr<Model>> model =
        Model::Load(*file_, *config, options, threads_, ledger_, nullptr);
    OCTAVO_CHECK(model.ok(), model.status().message());
    model_ = *std::move(model);

    kvcache::KvCacheSpec spec;
    spec.num_layers = config->num_layers;
    spec.num_kv_heads = config->num_kv_heads;
    spec.head_dim = config->head_dim;
    spec.block_size_tokens = kBlockSize;
    const Result<kvstore::KvLayout> layout = kvstore::KvLayout::Create(
        spec, kernels::KvDtype::kFloat16, num_sequences * (kPrefixBlocks + kOwnBlocks));
    OCTAVO_CHECK(layout.ok(), layout.status().message());
    Result<kvstore::KvStore> store = kvstore::KvStore::Create(*layout, ledger_);
    OCTAVO_CHECK(store.ok(), store.status().message());
    store_.emplace(*std::move(store));
    LayOut(num_sequences, shares);
    logits_.resize(static_cast<size_t>(num_sequences * config->vocab_size));
  }

  void Step() {
    model_->Forward({tokens_, slices_, output_rows_}, *store_);
    model_->Logits(0, std::ssize(output_rows_), logits_.data());
  }

 private:
  // The prefix is computed once, in the first sequence's blocks; hidden sharing copies it.
  void LayOut(int64_t num_sequences, bool shares) {
    uint32_t next_block = 0;
    for (int64_t i = 0; i < num_sequences; ++i) {
      std::vector<uint32_t>& table = tables_.emplace_back(kPrefixBlocks + kOwnBlocks);
      std::iota(table.begin(), table.end(), next_block);
      next_block += kPrefixBlocks + kOwnBlocks;
      if (i == 0) Prefill();
      for (uint32_t block = 0; i > 0 && block < table.size(); ++block) {
        const bool is_shared = shares && block < kPrefixBlocks;
        if (!is_shared) store_->CopyBlock(kvcache::BlockId(block), kvcache::BlockId(table[block]));
        if (is_shared) table[block] = block;
      }
      tokens_.push_back(static_cast<TokenId>(100 + i));
      output_rows_.push_back(static_cast<int32_t>(i));
    }
    for (const std::vector<uint32_t>& table : tables_) {
      slices_.push_back({1, kPrefixTokens + kOwnTokens - 1, table});
    }
  }
  void Prefill() {
    std::vector<TokenId> tokens(kPrefixTokens + kOwnTokens);
    std::iota(tokens.begin(), tokens.end(), 1000);
    for (int64_t first = 0; first < std::ssize(tokens); first += 256) {
      const int64_t count = std::min<int64_t>(256, std::ssize(tokens) - first);
      const SequenceSlice slice{count, first, tables_[0]};
      model_->Forward(
          {std::span(tokens).subspan(static_cast<size_t>(first), static_cast<size_t>(count)),
           std::span(&slice, 1),
           {}},
          *store_);
    }
  }

  base::MemoryLedger ledger_;
  base::ThreadPool threads_;
  Result<formats::GgufFile> file_;
  std::unique_ptr<Model> model_;
  std::optional<kvstore::KvStore> store_;
  std::vector<std::vector<uint32_t>> tables_;
  std::vector<TokenId> tokens_;
  std::vector<SequenceSlice> slices_;
  std::vector<int32_t> output_rows_;
  std::vector<float> logits_;
};

void Decode(benchmark::State& state, bool shares) {
  Bench bench(static_cast<int>(state.range(1)), state.range(0), shares);
  for (auto _ : state) bench.Step();
  state.counters["tokens/s"] = benchmark::Counter(
      static_cast<double>(state.iterations() * state.range(0)), benchmark::Counter::kIsRate);
}

void Register() {
  for (const bool shares : {true, false}) {
    benchmark::RegisterBenchmark(shares ? "decode/shared" : "decode/hidden", Decode, shares)
        ->ArgNames({"sequences", "threads"})
        ->ArgsProduct({{1, 4, 16, 64}, {1, 2}})
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  }
}

}  // namespace
}  // namespace octavo::model

int main(int argc, char** argv) {
  octavo::model::Register();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
