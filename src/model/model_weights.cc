#include "model/model_weights.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "quant/decode.h"

namespace octavo::model {
namespace {

// A part of a stored tensor that becomes one packed matrix.
struct MatrixSource {
  tensor::DType dtype;
  int64_t num_outputs;
  int64_t num_inputs;
  const std::byte* stored;
  quant::PackedMatrixView* view;  // filled when packed

  size_t packed_bytes() const {
    const int64_t panels = (num_outputs + quant::kPanelOutputs - 1) / quant::kPanelOutputs;
    return static_cast<size_t>(panels) * quant::PackedPanelBytes(dtype, num_inputs);
  }
  std::span<const std::byte> stored_bytes() const {
    return {stored, tensor::StoredBytes(dtype, static_cast<size_t>(num_outputs * num_inputs))};
  }
};

// A stored vector that becomes float32.
struct VectorSource {
  const formats::GgufTensor* tensor;
  const float** target;

  size_t decoded_bytes() const {
    return (static_cast<size_t>(tensor->num_elements) * sizeof(float) + 63) / 64 * 64;
  }
};

std::string LayerTensor(int32_t layer, std::string_view name) {
  return fmt::format("blk.{}.{}", layer, name);
}

}  // namespace

// Finds and checks every tensor, then packs; the two steps are apart so that memory is planned
// before it is taken.
class WeightLoader {
 public:
  WeightLoader(const formats::GgufFile& file, const ModelConfig& config, ModelWeights& weights)
      : file_(file), config_(config), weights_(weights) {}

  Status Collect();
  size_t PlannedBytes() const;
  void Pack(base::ThreadPool& pool, const std::function<void(double)>& on_progress);

 private:
  void CollectLayer(int32_t layer);
  void CollectAttentionInputs(int32_t layer);
  void CollectRopeFactors();
  const formats::GgufTensor* Find(const std::string& name, int64_t inputs, int64_t outputs);
  void Matrix(const std::string& name, int64_t inputs, int64_t outputs, Linear& linear);
  void Rows(const formats::GgufTensor& tensor, int64_t first_row, int64_t outputs, Linear& linear);
  void Vector(const std::string& name, int64_t size, const float*& target);
  void OptionalVector(const std::string& name, int64_t size, const float*& target);
  std::vector<float> Divisors(const std::string& name);
  void Fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  const formats::GgufFile& file_;
  const ModelConfig& config_;
  ModelWeights& weights_;
  std::vector<MatrixSource> matrices_;
  std::vector<VectorSource> vectors_;
  Status status_;
};

const formats::GgufTensor* WeightLoader::Find(const std::string& name, int64_t inputs,
                                              int64_t outputs) {
  const formats::GgufTensor* tensor = file_.FindTensor(name);
  if (tensor == nullptr) {
    Fail(Status::DataLoss(fmt::format("{}: tensor {} is missing", file_.name(), name)));
    return nullptr;
  }
  if (tensor->dims[0] != inputs || tensor->dims[1] != outputs || tensor->dims[2] != 1 ||
      tensor->dims[3] != 1) {
    Fail(Status::DataLoss(fmt::format("{}: tensor {} is [{}, {}], but the model needs [{}, {}]",
                                      file_.name(), name, tensor->dims[0], tensor->dims[1], inputs,
                                      outputs)));
    return nullptr;
  }
  return tensor;
}

void WeightLoader::Rows(const formats::GgufTensor& tensor, int64_t first_row, int64_t outputs,
                        Linear& linear) {
  const int64_t inputs = tensor.dims[0];
  const size_t row_bytes = tensor::StoredBytes(tensor.dtype, static_cast<size_t>(inputs));
  matrices_.push_back({tensor.dtype, outputs, inputs,
                       tensor.stored.data() + static_cast<size_t>(first_row) * row_bytes,
                       &linear.matrix});
  if (quant::PackedMatrixView{tensor.dtype, 0, 0, 0, nullptr}.is_quantized()) {
    weights_.has_quantized_matrix_ = true;
  }
}

void WeightLoader::Matrix(const std::string& name, int64_t inputs, int64_t outputs,
                          Linear& linear) {
  const formats::GgufTensor* tensor = Find(name + ".weight", inputs, outputs);
  if (tensor == nullptr) return;
  Rows(*tensor, 0, outputs, linear);
  OptionalVector(name + ".bias", outputs, linear.bias);
}

void WeightLoader::Vector(const std::string& name, int64_t size, const float*& target) {
  const formats::GgufTensor* tensor = Find(name, size, 1);
  if (tensor != nullptr) vectors_.push_back({tensor, &target});
}

void WeightLoader::OptionalVector(const std::string& name, int64_t size, const float*& target) {
  if (file_.FindTensor(name) != nullptr) Vector(name, size, target);
}

std::vector<float> WeightLoader::Divisors(const std::string& name) {
  if (file_.FindTensor(name) == nullptr) return {};
  const formats::GgufTensor* tensor = Find(name, config_.rot_dim / 2, 1);
  if (tensor == nullptr) return {};
  std::vector<float> divisors(static_cast<size_t>(tensor->num_elements));
  quant::DecodeRow(tensor->dtype, tensor->stored.data(), divisors.size(), divisors.data());
  for (float divisor : divisors) {
    if (!(divisor > 0.0f) || !std::isfinite(divisor)) {
      Fail(Status::DataLoss(fmt::format("{}: tensor {} holds {}, but must be positive and finite",
                                        file_.name(), name, divisor)));
    }
  }
  return divisors;
}

void WeightLoader::CollectRopeFactors() {
  weights_.rope_factors_.frequency_divisors = Divisors("rope_freqs.weight");
  weights_.rope_factors_.long_divisors = Divisors("rope_factors_long.weight");
  weights_.rope_factors_.short_divisors = Divisors("rope_factors_short.weight");
  if (config_.rope.scaling == RopeScaling::kLongRope &&
      (weights_.rope_factors_.long_divisors.empty() ||
       weights_.rope_factors_.short_divisors.empty())) {
    Fail(Status::DataLoss(file_.name() +
                          ": rope.scaling.type is longrope, but rope_factors_long.weight or "
                          "rope_factors_short.weight is missing"));
  }
}

// Query, key and value as three tensors, or as one whose rows follow each other.
void WeightLoader::CollectAttentionInputs(int32_t layer) {
  LayerWeights& target = weights_.layers_[static_cast<size_t>(layer)];
  const int64_t hidden = config_.hidden_dim;
  const std::string fused_name = LayerTensor(layer, "attn_qkv.weight");
  if (file_.FindTensor(fused_name) == nullptr) {
    Matrix(LayerTensor(layer, "attn_q"), hidden, config_.query_dim(), target.query);
    Matrix(LayerTensor(layer, "attn_k"), hidden, config_.kv_dim(), target.key);
    Matrix(LayerTensor(layer, "attn_v"), hidden, config_.kv_dim(), target.value);
    return;
  }
  const int64_t outputs = config_.query_dim() + 2 * config_.kv_dim();
  const formats::GgufTensor* fused = Find(fused_name, hidden, outputs);
  if (fused == nullptr) return;
  for (const char* bias : {"attn_qkv.bias", "attn_q.bias", "attn_k.bias", "attn_v.bias"}) {
    const std::string name = LayerTensor(layer, bias);
    if (file_.FindTensor(name) == nullptr) continue;
    Fail(Status::Unimplemented(fmt::format("{}: tensor {} beside a fused {} is not supported",
                                           file_.name(), name, fused_name)));
  }
  Rows(*fused, 0, config_.query_dim(), target.query);
  Rows(*fused, config_.query_dim(), config_.kv_dim(), target.key);
  Rows(*fused, config_.query_dim() + config_.kv_dim(), config_.kv_dim(), target.value);
}

void WeightLoader::CollectLayer(int32_t layer) {
  LayerWeights& target = weights_.layers_[static_cast<size_t>(layer)];
  const int64_t hidden = config_.hidden_dim;
  const int64_t ffn = config_.ffn_dim;
  Vector(LayerTensor(layer, "attn_norm.weight"), hidden, target.attention_norm);
  Vector(LayerTensor(layer, "ffn_norm.weight"), hidden, target.feed_forward_norm);
  CollectAttentionInputs(layer);
  Matrix(LayerTensor(layer, "attn_output"), config_.query_dim(), hidden, target.attention_output);
  Matrix(LayerTensor(layer, "ffn_gate"), hidden, ffn, target.gate);
  Matrix(LayerTensor(layer, "ffn_up"), hidden, ffn, target.up);
  Matrix(LayerTensor(layer, "ffn_down"), ffn, hidden, target.down);
}

Status WeightLoader::Collect() {
  weights_.layers_.resize(static_cast<size_t>(config_.num_layers));
  const formats::GgufTensor* embedding =
      Find("token_embd.weight", config_.hidden_dim, config_.vocab_size);
  if (embedding == nullptr) return status_;
  weights_.embedding_bytes_ = embedding->stored;
  weights_.embedding_dtype_ = embedding->dtype;
  weights_.embedding_row_elements_ = config_.hidden_dim;

  for (int32_t layer = 0; status_.ok() && layer < config_.num_layers; ++layer) CollectLayer(layer);
  Vector("output_norm.weight", config_.hidden_dim, weights_.output_norm_);
  if (file_.FindTensor("output.weight") != nullptr) {
    Matrix("output", config_.hidden_dim, config_.vocab_size, weights_.output_);
  } else {
    Rows(*embedding, 0, config_.vocab_size, weights_.output_);
  }
  CollectRopeFactors();
  return status_;
}

size_t WeightLoader::PlannedBytes() const {
  size_t bytes = 0;
  for (const MatrixSource& matrix : matrices_) bytes += matrix.packed_bytes();
  for (const VectorSource& vector : vectors_) bytes += vector.decoded_bytes();
  return bytes;
}

void WeightLoader::Pack(base::ThreadPool& pool, const std::function<void(double)>& on_progress) {
  const auto total = static_cast<double>(PlannedBytes());
  size_t offset = 0;
  for (const MatrixSource& matrix : matrices_) {
    std::byte* packed = weights_.memory_.data() + offset;
    *matrix.view = {matrix.dtype, matrix.num_outputs, matrix.num_inputs,
                    quant::PackedPanelBytes(matrix.dtype, matrix.num_inputs), packed};
    const int64_t panels = matrix.view->num_panels();
    pool.Run([&](int thread) {
      quant::PackPanels(matrix.dtype, matrix.num_outputs, matrix.num_inputs, matrix.stored, packed,
                        panels * thread / pool.num_threads(),
                        panels * (thread + 1) / pool.num_threads());
    });
    file_.ReleasePages(matrix.stored_bytes());  // else file and weights would be in RAM at once
    offset += matrix.packed_bytes();
    if (on_progress) on_progress(static_cast<double>(offset) / total);
  }
  for (const VectorSource& vector : vectors_) {
    auto* decoded = reinterpret_cast<float*>(weights_.memory_.data() + offset);
    quant::DecodeRow(vector.tensor->dtype, vector.tensor->stored.data(),
                     static_cast<size_t>(vector.tensor->num_elements), decoded);
    *vector.target = decoded;
    offset += vector.decoded_bytes();
  }
  if (on_progress) on_progress(1.0);
}

Result<std::unique_ptr<ModelWeights>> ModelWeights::Load(
    const formats::GgufFile& file, const ModelConfig& config, base::ThreadPool& pool,
    base::MemoryLedger& ledger, const std::function<void(double)>& on_progress) {
  auto weights = std::make_unique<ModelWeights>();
  WeightLoader loader(file, config, *weights);
  if (Status status = loader.Collect(); !status.ok()) return status;
  const size_t bytes = loader.PlannedBytes();
  weights->memory_ = base::AlignedBuffer::Allocate(bytes);
  if (!weights->memory_) {
    return Status::ResourceExhausted(
        fmt::format("{}: cannot allocate {} bytes for the weights", file.name(), bytes));
  }
  weights->reservation_ = ledger.Reserve(MemoryTag::kWeights, static_cast<int64_t>(bytes));
  loader.Pack(pool, on_progress);
  return weights;
}

Result<int64_t> ModelWeights::PlannedBytes(const formats::GgufFile& file,
                                           const ModelConfig& config) {
  ModelWeights weights;
  WeightLoader loader(file, config, weights);
  if (Status status = loader.Collect(); !status.ok()) return status;
  return static_cast<int64_t>(loader.PlannedBytes());
}

void ModelWeights::EmbedToken(int32_t token, float* out) const {
  const auto elements = static_cast<size_t>(embedding_row_elements_);
  const size_t row_bytes = tensor::StoredBytes(embedding_dtype_, elements);
  quant::DecodeRow(embedding_dtype_,
                   embedding_bytes_.data() + static_cast<size_t>(token) * row_bytes, elements, out);
}

}  // namespace octavo::model
