#pragma once

// Purpose:    what the cross-layer tests share: where the default model lies, a model without an
//             engine around it, and goldens' little-endian fields.
// Ownership:  LoadedModel owns all its parts.
// Threading:  one thread.
// Invariants: none beyond the parts' own.

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/memory_ledger.h"
#include "base/thread_pool.h"
#include "formats/gguf_file.h"
#include "kvstore/kv_store.h"
#include "model/model.h"
#include "octavo/types.h"

namespace octavo::testing {

// Sanitizers make the model some twenty times slower: the same paths then run on shorter sequences.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

// OCTAVO_MODEL, or the fetched default model; nothing if it is not there.
std::optional<std::string> DefaultModelPath();

std::string GoldenPath(const std::string& name);  // under tests/golden

class LoadedModel {
 public:
  struct Options {
    kernels::Products products = kernels::Products::kInt8;
    kernels::KvDtype kv_dtype = kernels::KvDtype::kFloat16;
    int32_t max_model_len = 0;  // tokens; 0 = the file's context
    int32_t max_rows = 128;     // tokens per step
  };

  LoadedModel(const std::string& path, const Options& options);

  // Runs the model over `tokens` and calls `on_logits(position, logits)` for every position that
  // `wants` is true for.
  void Run(std::span<const TokenId> tokens, const std::function<bool(int64_t)>& wants,
           const std::function<void(int64_t, std::span<const float>)>& on_logits);

  const model::ModelConfig& config() const { return config_; }
  const kernels::KernelTable& kernels() const { return model_->kernels(); }

 private:
  base::MemoryLedger ledger_;
  std::optional<formats::GgufFile> file_;
  model::ModelConfig config_;
  std::unique_ptr<base::ThreadPool> threads_;
  std::unique_ptr<model::Model> model_;
  std::optional<kvstore::KvStore> store_;
  std::vector<uint32_t> block_table_;  // every block, in order
  int32_t max_rows_ = 0;
};

// Reads little-endian fields one after another.
class GoldenReader {
 public:
  explicit GoldenReader(const std::string& path);

  template <typename T>
  T Read() {
    T value;
    Take(&value, sizeof(T));
    return value;
  }
  template <typename T>
  std::vector<T> ReadVector(size_t count) {
    std::vector<T> values(count);
    Take(values.data(), count * sizeof(T));
    return values;
  }
  std::string ReadText(size_t num_bytes) {
    std::string text(num_bytes, '\0');
    Take(text.data(), num_bytes);
    return text;
  }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  void Take(void* target, size_t num_bytes);

  std::string bytes_;
  size_t at_ = 0;
};

}  // namespace octavo::testing
