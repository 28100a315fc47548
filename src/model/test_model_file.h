#pragma once

// Purpose:    models for this folder's tests: a small random GGUF file in memory, whose tensors a
//             test may drop, reshape or fuse; and a model with all that it borrows.
// Ownership:  a LoadedFile owns its bytes; a TestModel borrows a LoadedFile and owns the rest.
// Threading:  one thread.
// Invariants: the same seed gives the same file.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/memory_ledger.h"
#include "base/thread_pool.h"
#include "formats/gguf_builder.h"
#include "formats/gguf_file.h"
#include "kernels/kernel_table.h"
#include "kvstore/kv_store.h"
#include "model/model.h"
#include "tensor/half.h"

namespace octavo::model {

struct TestTensor {
  std::string name;
  tensor::DType dtype = tensor::DType::kF32;
  std::vector<int64_t> dims;  // columns first
  std::vector<std::byte> stored;
};

// A llama of 2 layers: 4 heads of 16 share 2 K and V heads, width 64, inner width 96, 40 tokens.
class TestModelFile {
 public:
  static constexpr int64_t kHidden = 64, kInner = 96, kQuery = 64, kKv = 32, kVocab = 40;
  static constexpr int32_t kLayers = 2, kHeads = 4, kKvHeads = 2, kContext = 512;

  // The matrices' format is F32 or Q8_0; vectors are F32.
  explicit TestModelFile(tensor::DType format = tensor::DType::kF32, uint32_t seed = 1)
      : format_(format), random_(seed) {
    Matrix("token_embd.weight", kHidden, kVocab);
    Vector("output_norm.weight", kHidden);
    for (int32_t layer = 0; layer < kLayers; ++layer) {
      const std::string prefix = "blk." + std::to_string(layer) + ".";
      Vector(prefix + "attn_norm.weight", kHidden);
      Matrix(prefix + "attn_q.weight", kHidden, kQuery);
      Matrix(prefix + "attn_k.weight", kHidden, kKv);
      Matrix(prefix + "attn_v.weight", kHidden, kKv);
      Matrix(prefix + "attn_output.weight", kQuery, kHidden);
      Vector(prefix + "ffn_norm.weight", kHidden);
      Matrix(prefix + "ffn_gate.weight", kHidden, kInner);
      Matrix(prefix + "ffn_up.weight", kHidden, kInner);
      Matrix(prefix + "ffn_down.weight", kInner, kHidden);
    }
  }

  TestTensor& Find(const std::string& name) {
    const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                    [&](const TestTensor& tensor) { return tensor.name == name; });
    OCTAVO_CHECK(found != tensors_.end(), "a tensor of the file");
    return *found;
  }
  void Remove(const std::string& name) {
    std::erase_if(tensors_, [&](const TestTensor& tensor) { return tensor.name == name; });
  }
  void Add(TestTensor tensor) { tensors_.push_back(std::move(tensor)); }
  void Vector(const std::string& name, int64_t size) {
    Add({name, tensor::DType::kF32, {size}, Floats(size, 0.5f, 1.5f)});
  }
  void Matrix(const std::string& name, int64_t columns, int64_t rows) {
    const float range = 2.0f / std::sqrt(static_cast<float>(columns));
    Add({name,
         format_,
         {columns, rows},
         format_ == tensor::DType::kQ8_0 ? Q8Blocks(columns * rows / 32, range)
                                         : Floats(columns * rows, -range, range)});
  }
  // One tensor attn_qkv in place of attn_q, attn_k and attn_v.
  void FuseQueryKeyValue() {
    for (int32_t layer = 0; layer < kLayers; ++layer) {
      const std::string prefix = "blk." + std::to_string(layer) + ".";
      TestTensor fused{prefix + "attn_qkv.weight", format_, {kHidden, kQuery + 2 * kKv}, {}};
      for (const char* part : {"attn_q.weight", "attn_k.weight", "attn_v.weight"}) {
        const TestTensor& tensor = Find(prefix + part);
        fused.stored.insert(fused.stored.end(), tensor.stored.begin(), tensor.stored.end());
      }
      for (const char* part : {"attn_q.weight", "attn_k.weight", "attn_v.weight"}) {
        Remove(prefix + part);
      }
      Add(std::move(fused));
    }
  }

  void SetRopeScaling(const std::string& type) { rope_scaling_ = type; }

  std::vector<std::byte> Build() const {
    formats::GgufBuilder builder;
    builder.String("general.architecture", "llama")
        .Uint32("llama.block_count", kLayers)
        .Uint32("llama.embedding_length", kHidden)
        .Uint32("llama.feed_forward_length", kInner)
        .Uint32("llama.attention.head_count", kHeads)
        .Uint32("llama.attention.head_count_kv", kKvHeads)
        .Uint32("llama.context_length", kContext)
        .Float32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    if (!rope_scaling_.empty()) builder.String("llama.rope.scaling.type", rope_scaling_);
    for (const TestTensor& tensor : tensors_) {
      builder.Tensor(tensor.name, tensor.dtype, tensor.dims, tensor.stored);
    }
    return builder.Build();
  }

 private:
  std::vector<std::byte> Floats(int64_t count, float low, float high) {
    std::uniform_real_distribution<float> values(low, high);
    std::vector<float> floats(static_cast<size_t>(count));
    for (float& value : floats) value = values(random_);
    std::vector<std::byte> stored(floats.size() * sizeof(float));
    std::memcpy(stored.data(), floats.data(), stored.size());
    return stored;
  }
  // A block: its scale as float16, then 32 codes of one byte.
  std::vector<std::byte> Q8Blocks(int64_t count, float range) {
    std::uniform_int_distribution<int> codes(-127, 127);
    const uint16_t scale = tensor::FloatToHalf(range / 127.0f);
    std::vector<std::byte> stored;
    for (int64_t block = 0; block < count; ++block) {
      stored.push_back(static_cast<std::byte>(scale & 0xff));
      stored.push_back(static_cast<std::byte>(scale >> 8));
      for (int i = 0; i < 32; ++i) stored.push_back(static_cast<std::byte>(codes(random_)));
    }
    return stored;
  }

  tensor::DType format_;
  std::mt19937 random_;
  std::string rope_scaling_;
  std::vector<TestTensor> tensors_;
};

// A file with its configuration, from memory or from disk.
struct LoadedFile {
  explicit LoadedFile(const TestModelFile& source)
      : bytes(source.Build()), file(formats::GgufFile::FromBytes(bytes, "test.gguf")) {
    ReadConfig();
  }
  explicit LoadedFile(const std::string& path) : file(formats::GgufFile::Open(path)) {
    ReadConfig();
  }
  LoadedFile(const LoadedFile&) = delete;
  LoadedFile& operator=(const LoadedFile&) = delete;

  std::vector<std::byte> bytes;
  Result<formats::GgufFile> file;
  ModelConfig config;

 private:
  void ReadConfig() {
    OCTAVO_CHECK(file.ok(), file.status().message());
    const Result<ModelConfig> read = ReadModelConfig(*file);
    OCTAVO_CHECK(read.ok(), read.status().message());
    config = *read;
  }
};

struct TestModelOptions {
  kernels::Products products = kernels::Products::kInt8;
  int num_threads = 1;
  int32_t max_rows = 64;  // tokens per step
  int32_t block_size = 16;
  int32_t num_blocks = 64;
  kernels::KvDtype kv_dtype = kernels::KvDtype::kFloat16;
  const kernels::KernelTable* kernels = kernels::BestKernels();
};

// A model with compute threads and a store full of NaN.
class TestModel {
 public:
  TestModel(const LoadedFile& file, const TestModelOptions& options)
      : threads_(options.num_threads) {
    ModelOptions model_options;
    model_options.kernels = options.kernels;
    model_options.products = options.products;
    model_options.max_rows = options.max_rows;
    model_options.max_output_rows = options.max_rows;
    model_options.max_model_len = file.config.context_length;
    model_options.rope_model_len = file.config.context_length;
    Result<std::unique_ptr<Model>> model =
        Model::Load(*file.file, file.config, model_options, threads_, ledger_, nullptr);
    OCTAVO_CHECK(model.ok(), model.status().message());
    model_ = *std::move(model);

    kvcache::KvCacheSpec spec;
    spec.num_layers = file.config.num_layers;
    spec.num_kv_heads = file.config.num_kv_heads;
    spec.head_dim = file.config.head_dim;
    spec.block_size_tokens = options.block_size;
    const Result<kvstore::KvLayout> layout =
        kvstore::KvLayout::Create(spec, options.kv_dtype, options.num_blocks);
    OCTAVO_CHECK(layout.ok(), layout.status().message());
    Result<kvstore::KvStore> store =
        kvstore::KvStore::Create(*layout, ledger_, kvstore::InitialFill::kNaN);
    OCTAVO_CHECK(store.ok(), store.status().message());
    store_.emplace(*std::move(store));
  }

  // One step; the logits of batch.output_rows, row after row.
  std::vector<float> Step(const ForwardBatch& batch) {
    model_->Forward(batch, *store_);
    const auto num_rows = static_cast<int64_t>(batch.output_rows.size());
    const auto vocab_size = static_cast<size_t>(model_->config().vocab_size);
    std::vector<float> logits(static_cast<size_t>(num_rows) * vocab_size);
    if (num_rows > 0) model_->Logits(0, num_rows, logits.data());
    return logits;
  }

  Model& model() { return *model_; }
  kvstore::KvStore& store() { return *store_; }

 private:
  base::MemoryLedger ledger_;
  base::ThreadPool threads_;
  std::unique_ptr<Model> model_;
  std::optional<kvstore::KvStore> store_;
};

// The bits of logits: NaN equals itself, and 0 is not -0.
inline std::vector<uint32_t> BitsOf(std::span<const float> values) {
  std::vector<uint32_t> bits(values.size());
  if (!values.empty()) std::memcpy(bits.data(), values.data(), values.size_bytes());
  return bits;
}

}  // namespace octavo::model
