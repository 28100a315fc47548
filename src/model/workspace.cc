#include "model/workspace.h"

#include <algorithm>
#include <string>
#include <utility>

#include "kernels/arithmetic_version.h"
#include "kernels/attention.h"

namespace octavo::model {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kMaxSplitPartials = 1024;  // unless one sequence alone needs more

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

// Hands out consecutive aligned pieces of one allocation; with a null base it only counts.
class Workspace::Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}

  template <typename T>
  T* Take(int64_t count) {
    std::byte* piece = base_ == nullptr ? nullptr : base_ + used_;
    used_ += RoundUp(count * static_cast<int64_t>(sizeof(T)), kAlignment);
    return reinterpret_cast<T*>(piece);
  }
  // An odd number of cache lines, so that some columns of all rows spread over all cache sets.
  RowBuffer Rows(int64_t rows, int64_t width) {
    const int64_t stride = ((width + 15) / 16 | 1) * 16;
    return RowBuffer{Take<float>(rows * stride), stride};
  }
  QuantizedInput Quantized(kernels::Products products, int64_t rows, int64_t width) {
    QuantizedInput input;
    if (products == kernels::Products::kInt8) {
      input.int8 = {Take<int8_t>(rows * width), Take<float>(rows * width / 32),
                    Take<float>(rows * width / 32), Take<int16_t>(rows * width / 16), width};
    } else if (products == kernels::Products::kInt16) {
      input.int16 = {Take<int16_t>(rows * width), Take<uint8_t>(rows * width * 2),
                     Take<float>(rows), Take<float>(rows * width / 16), width};
    }
    return input;
  }
  int64_t used() const { return used_; }

 private:
  std::byte* base_;
  int64_t used_ = 0;
};

QuantizedInput QuantizedInput::WithWidth(int64_t num_inputs) const {
  QuantizedInput view = *this;
  view.int8.num_inputs = num_inputs;
  view.int16.num_inputs = num_inputs;
  return view;
}

void Workspace::Carve(Carver& carver, const ModelConfig& config) {
  const int64_t rows = shape_.max_rows;
  hidden = carver.Rows(rows, config.hidden_dim);
  normed = carver.Rows(rows, config.hidden_dim);
  query = carver.Rows(rows, config.query_dim());
  key = carver.Rows(rows, config.kv_dim());
  value = carver.Rows(rows, config.kv_dim());
  attended = carver.Rows(rows, config.query_dim());
  gate = carver.Rows(rows, config.ffn_dim);
  up = carver.Rows(rows, config.ffn_dim);
  projected = carver.Rows(rows, config.hidden_dim);
  output = carver.Rows(shape_.max_output_rows, config.hidden_dim);
  rope_cos = carver.Rows(rows, config.rot_dim / 2);
  rope_sin = carver.Rows(rows, config.rot_dim / 2);

  const int64_t input_width = RoundUp(std::max(config.hidden_dim, config.query_dim()), 32);
  const int64_t inner_width = RoundUp(config.ffn_dim, 32);
  input_ = carver.Quantized(shape_.products, std::max(rows, shape_.max_output_rows), input_width);
  inner_ = carver.Quantized(shape_.products, rows, inner_width);

  const int64_t partial = kernels::PartialFloats(config.head_dim);
  split_partials = carver.Take<float>(NumSplitPartials(shape_) * config.num_heads * partial);

  const int64_t widest = std::max(input_width, inner_width);
  scratch_.resize(static_cast<size_t>(shape_.num_threads));
  for (ThreadScratch& scratch : scratch_) {
    const int64_t tile = kernels::kMaxAttentionRows * config.group_size() * partial;
    scratch.row = carver.Take<float>(widest);
    scratch.quantized = carver.Quantized(shape_.products, 1, widest);
    scratch.attention = carver.Take<float>(kernels::AttentionScratchFloats(config.head_dim));
    scratch.partials = carver.Take<float>(tile);
    scratch.running = carver.Take<float>(tile);
  }
}

int64_t Workspace::NumSplitPartials(const Shape& shape) {
  const int64_t chunks =
      RoundUp(shape.max_model_len, kernels::kAttentionChunkTokens) / kernels::kAttentionChunkTokens;
  return std::max(chunks, std::min(shape.max_rows * chunks, kMaxSplitPartials));
}

int64_t Workspace::PlannedBytes(const ModelConfig& config, const Shape& shape) {
  Workspace counting;
  counting.shape_ = shape;
  Carver carver(nullptr);
  counting.Carve(carver, config);
  return carver.used();
}

Result<Workspace> Workspace::Create(const ModelConfig& config, const Shape& shape,
                                    base::MemoryLedger& ledger) {
  const int64_t bytes = PlannedBytes(config, shape);
  Workspace workspace;
  workspace.shape_ = shape;
  workspace.memory_ = base::AlignedBuffer::Allocate(static_cast<size_t>(bytes));
  if (!workspace.memory_) {
    return Status::ResourceExhausted("cannot allocate " + std::to_string(bytes) +
                                     " bytes for activations; lower max_num_batched_tokens");
  }
  workspace.reservation_ = ledger.Reserve(MemoryTag::kActivations, bytes);
  Carver carver(workspace.memory_.data());
  workspace.Carve(carver, config);
  return workspace;
}

}  // namespace octavo::model
