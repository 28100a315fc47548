#include "support/test_model.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/check.h"
#include "base/environment.h"
#include "kernels/kernel_table.h"

namespace octavo::testing {

std::optional<std::string> DefaultModelPath() {
  std::optional<std::string> path = base::ReadEnvironment("OCTAVO_MODEL");
  if (!path) {
    const std::optional<std::string> cache = base::CacheDirectory();
    if (cache) path = *cache + "/SmolLM2-135M-Instruct.Q4_1.gguf";
  }
  if (path && std::ifstream(*path).good()) return path;
  return std::nullopt;
}

std::string GoldenPath(const std::string& name) {
  return std::string(OCTAVO_SOURCE_DIR) + "/tests/golden/" + name;
}

LoadedModel::LoadedModel(const std::string& path, const Options& options)
    : max_rows_(options.max_rows) {
  Result<formats::GgufFile> file = formats::GgufFile::Open(path);
  OCTAVO_CHECK(file.ok(), file.status().message());
  file_.emplace(*std::move(file));
  const Result<model::ModelConfig> config = model::ReadModelConfig(*file_);
  OCTAVO_CHECK(config.ok(), config.status().message());
  config_ = *config;
  threads_ = std::make_unique<base::ThreadPool>(2);

  const int32_t max_model_len =
      options.max_model_len > 0 ? options.max_model_len : config_.context_length;
  model::ModelOptions model_options;
  model_options.kernels = kernels::BestKernels();
  model_options.products = options.products;
  model_options.max_rows = max_rows_;
  model_options.max_output_rows = max_rows_;
  model_options.max_model_len = max_model_len;
  model_options.rope_model_len = max_model_len;
  Result<std::unique_ptr<model::Model>> model =
      model::Model::Load(*file_, config_, model_options, *threads_, ledger_, nullptr);
  OCTAVO_CHECK(model.ok(), model.status().message());
  model_ = *std::move(model);

  kvcache::KvCacheSpec spec;
  spec.num_layers = config_.num_layers;
  spec.num_kv_heads = config_.num_kv_heads;
  spec.head_dim = config_.head_dim;
  const Result<kvstore::KvLayout> layout =
      kvstore::KvLayout::Create(spec, options.kv_dtype, spec.NumBlocksForTokens(max_model_len));
  OCTAVO_CHECK(layout.ok(), layout.status().message());
  Result<kvstore::KvStore> store = kvstore::KvStore::Create(*layout, ledger_);
  OCTAVO_CHECK(store.ok(), store.status().message());
  store_.emplace(*std::move(store));
  for (uint32_t block = 0; block < layout->num_blocks; ++block) block_table_.push_back(block);
}

void LoadedModel::Run(std::span<const TokenId> tokens, const std::function<bool(int64_t)>& wants,
                      const std::function<void(int64_t, std::span<const float>)>& on_logits) {
  std::vector<float> logits(static_cast<size_t>(config_.vocab_size));
  for (int64_t first = 0; first < static_cast<int64_t>(tokens.size()); first += max_rows_) {
    const int64_t count = std::min<int64_t>(static_cast<int64_t>(tokens.size()) - first, max_rows_);
    std::vector<int32_t> output_rows;
    for (int32_t row = 0; row < count; ++row) {
      if (wants(first + row)) output_rows.push_back(row);
    }
    const model::SequenceSlice slice{count, first, block_table_};
    model_->Forward({tokens.subspan(static_cast<size_t>(first), static_cast<size_t>(count)),
                     std::span(&slice, 1), output_rows},
                    *store_);
    for (size_t i = 0; i < output_rows.size(); ++i) {
      model_->Logits(static_cast<int64_t>(i), 1, logits.data());
      on_logits(first + output_rows[i], logits);
    }
  }
}

GoldenReader::GoldenReader(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  OCTAVO_CHECK(file.good(), "cannot open " + path);
  std::ostringstream content;
  content << file.rdbuf();
  bytes_ = std::move(content).str();
}

void GoldenReader::Take(void* target, size_t num_bytes) {
  OCTAVO_CHECK(num_bytes <= bytes_.size() - at_, "the golden is shorter than its own counts say");
  if (num_bytes > 0) std::memcpy(target, bytes_.data() + at_, num_bytes);
  at_ += num_bytes;
}

}  // namespace octavo::testing
