#include "cli/inspection.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <memory>
#include <string_view>
#include <type_traits>
#include <variant>

#include "base/cpu_features.h"
#include "base/machine.h"
#include "cli/output_json.h"
#include "cli/streams.h"
#include "model/model_weights.h"
#include "tensor/dtype.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace octavo::cli {
namespace {

namespace json = boost::json;

struct KvFormat {
  const char* name;
  KvCacheDtype dtype;
};
constexpr KvFormat kKvFormats[] = {{"float32", KvCacheDtype::kFloat32},
                                   {"float16", KvCacheDtype::kFloat16},
                                   {"bfloat16", KvCacheDtype::kBFloat16},
                                   {"int8", KvCacheDtype::kInt8}};

constexpr size_t kMaxArrayElements = 16;

std::string FormatBytes(int64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  if (bytes < 1024 * 1024) return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / 1024.0);
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1024.0 * 1024.0));
}

json::value ScalarJson(const formats::GgufValue& value) {
  return std::visit(
      [](const auto& held) -> json::value {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, std::string_view>) {
          return json::value(text::ReplaceInvalidUtf8(held));
        } else if constexpr (std::is_floating_point_v<Held>) {
          return FiniteNumber(held);
        } else if constexpr (std::is_arithmetic_v<Held>) {
          return json::value(held);
        } else {
          return nullptr;  // an array inside an array, which no file has
        }
      },
      value);
}

// An array that is too long becomes {"type", "length", "first"}.
json::value ValueJson(const formats::GgufValue& value) {
  const auto* array = std::get_if<formats::GgufArray>(&value);
  if (array == nullptr) return ScalarJson(value);
  json::array elements;
  for (size_t i = 0; i < std::min(array->size, kMaxArrayElements); ++i) {
    elements.emplace_back(ScalarJson(formats::ElementAt(*array, i)));
  }
  if (array->size <= kMaxArrayElements) return elements;
  return json::object{{"type", formats::TypeName(array->element_type)},
                      {"length", array->size},
                      {"first", std::move(elements)}};
}

// Outermost dimension first, as frameworks write shapes.
std::string FormatShape(const formats::GgufTensor& tensor) {
  std::string shape = "[";
  for (int i = tensor.num_dims - 1; i >= 0; --i) {
    shape += fmt::format("{}{}", tensor.dims[static_cast<size_t>(i)], i > 0 ? ", " : "]");
  }
  return shape;
}

std::string_view DTypeName(const formats::GgufTensor& tensor) {
  return tensor::Traits(tensor.dtype).name;
}

json::object TensorJson(const formats::GgufTensor& tensor) {
  json::array shape;
  for (int i = tensor.num_dims - 1; i >= 0; --i) {
    shape.emplace_back(tensor.dims[static_cast<size_t>(i)]);
  }
  return {{"name", text::ReplaceInvalidUtf8(tensor.name)},
          {"dtype", DTypeName(tensor)},
          {"shape", std::move(shape)},
          {"bytes", tensor.stored.size()}};
}

// What Engine::Create would plan with default options on this machine.
Result<engine::EnginePlan> PlanDefaults(const formats::GgufFile& file,
                                        const Result<model::ModelConfig>& config) {
  if (!config.ok()) return config.status();
  const Result<int64_t> weight_bytes = model::ModelWeights::PlannedBytes(file, *config);
  if (!weight_bytes.ok()) return weight_bytes.status();
  const Result<std::unique_ptr<text::Tokenizer>> tokenizer = text::LoadTokenizer(file);
  if (!tokenizer.ok()) return tokenizer.status();
  engine::PlanInputs inputs;
  inputs.config = *config;
  inputs.weight_bytes = *weight_bytes;
  inputs.tokenizer_bytes = (*tokenizer)->memory_bytes();
  inputs.memory_bytes = base::ReadMachineMemory().limit_bytes();
  inputs.num_threads = base::NumUsableProcessors();
  inputs.max_rows = engine::DefaultMaxNumBatchedTokens(
      *config, base::DetectCpuFeatures().avx512_vnni, inputs.num_threads);
  const EngineOptions defaults;
  return engine::PlanMemory(inputs, defaults.model, defaults.cache);
}

}  // namespace

Inspection::Inspection(const formats::GgufFile& file)
    : file_(file), config_(model::ReadModelConfig(file)), plan_(PlanDefaults(file, config_)) {}

json::object Inspection::FileJson() const {
  return {{"path", text::ReplaceInvalidUtf8(file_.name())},
          {"version", file_.version()},
          {"alignment", file_.alignment()},
          {"num_shards", file_.num_shards()},
          {"bytes", file_.file_bytes()}};
}

json::object Inspection::Json() const {
  json::object metadata;
  for (const formats::GgufKeyValue& entry : file_.key_values()) {
    metadata[text::ReplaceInvalidUtf8(entry.key)] = ValueJson(entry.value);
  }
  json::array tensors;
  for (const formats::GgufTensor& tensor : file_.tensors()) tensors.push_back(TensorJson(tensor));
  json::object object = {{"file", FileJson()}, {"metadata", std::move(metadata)}};
  AddModel(&object);
  AddMemory(&object);
  object["tensors"] = std::move(tensors);
  return object;
}

void Inspection::AddModel(json::object* object) const {
  if (!config_.ok()) {
    (*object)["model"] = nullptr;
    (*object)["model_error"] = text::ReplaceInvalidUtf8(config_.status().message());
    (*object)["kv_bytes_per_token"] = nullptr;
    return;
  }
  const model::ModelConfig& config = *config_;
  (*object)["model"] = json::object{{"name", text::ReplaceInvalidUtf8(config.name)},
                                    {"architecture", config.architecture},
                                    {"num_layers", config.num_layers},
                                    {"hidden_dim", config.hidden_dim},
                                    {"ffn_dim", config.ffn_dim},
                                    {"num_heads", config.num_heads},
                                    {"num_kv_heads", config.num_kv_heads},
                                    {"head_dim", config.head_dim},
                                    {"vocab_size", config.vocab_size},
                                    {"context_length", config.context_length}};
  json::object per_token;
  for (const KvFormat& format : kKvFormats) {
    per_token[format.name] = engine::KvBytesPerToken(config, format.dtype);
  }
  (*object)["kv_bytes_per_token"] = std::move(per_token);
}

void Inspection::AddMemory(json::object* object) const {
  if (!plan_.ok()) {
    (*object)["memory"] = nullptr;
    (*object)["memory_error"] = text::ReplaceInvalidUtf8(plan_.status().message());
    return;
  }
  json::object memory = BytesByTag(plan_->memory.planned);
  memory["limit"] = plan_->memory.limit_bytes;
  memory["max_model_len"] = plan_->max_model_len;
  (*object)["memory"] = std::move(memory);
}

std::string Inspection::Text() const {
  std::string out = fmt::format("file  {}\n  GGUF version {}, {} shard{}, {}\n\nmetadata\n",
                                Printable(file_.name()), file_.version(), file_.num_shards(),
                                file_.num_shards() == 1 ? "" : "s",
                                FormatBytes(static_cast<int64_t>(file_.file_bytes())));
  for (const formats::GgufKeyValue& entry : file_.key_values()) {
    out += fmt::format("  {:<44} {}\n", Printable(entry.key), formats::FormatValue(entry.value));
  }
  out += "\ntensors\n";
  for (const formats::GgufTensor& tensor : file_.tensors()) {
    out +=
        fmt::format("  {:<44} {:<6} {:<16} {:>10}\n", Printable(tensor.name), DTypeName(tensor),
                    FormatShape(tensor), FormatBytes(static_cast<int64_t>(tensor.stored.size())));
  }
  return out + ModelText() + MemoryText();
}

std::string Inspection::ModelText() const {
  if (!config_.ok()) {
    return fmt::format("\nmodel\n  octavo cannot run this file: {}\n",
                       Printable(config_.status().message()));
  }
  const model::ModelConfig& config = *config_;
  std::string out = fmt::format(
      "\nmodel  {} ({})\n"
      "  {} layers, hidden {}, FFN {}, {} heads, {} KV heads, head_dim {}, vocabulary {}, context "
      "{} "
      "tokens\n\nKV cache, bytes per token (2 x layers x KV heads x (head_dim x element + "
      "scale))\n",
      Printable(config.name), config.architecture, config.num_layers, config.hidden_dim,
      config.ffn_dim, config.num_heads, config.num_kv_heads, config.head_dim, config.vocab_size,
      config.context_length);
  for (const KvFormat& format : kKvFormats) {
    out += fmt::format("  {:<12} {:>12}\n", format.name,
                       engine::KvBytesPerToken(config, format.dtype));
  }
  return out;
}

std::string Inspection::MemoryText() const {
  if (!config_.ok()) return "";
  if (!plan_.ok()) return fmt::format("\nmemory\n  {}\n", Printable(plan_.status().message()));
  std::string out = fmt::format("\nmemory, as planned here with default options ({} tokens)\n",
                                plan_->max_model_len);
  const MemoryUsage& planned = plan_->memory.planned;
  for (size_t tag = 0; tag < kNumMemoryTags; ++tag) {
    out += fmt::format("  {:<12} {:>12}\n", MemoryTagName(static_cast<MemoryTag>(tag)),
                       FormatBytes(planned.bytes[tag]));
  }
  out += fmt::format("  {:<12} {:>12}\n", "total", FormatBytes(planned.total()));
  return out + fmt::format("  {:<12} {:>12}\n", "limit", FormatBytes(plan_->memory.limit_bytes));
}

}  // namespace octavo::cli
