#include <fmt/format.h>

#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <map>
#include <string>
#include <type_traits>
#include <variant>

#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/output_json.h"
#include "cli/streams.h"
#include "formats/gguf_file.h"
#include "model/model_config.h"
#include "tensor/dtype.h"
#include "text/utf8.h"

namespace octavo::cli {
namespace {

namespace json = boost::json;

constexpr char kExamples[] =
    R"(The weights are not read. Long arrays (the vocabulary) are shortened to their first elements.

Examples:
  octavo inspect
  octavo inspect model.gguf --json | jq .kv_bytes_per_token
)";

constexpr size_t kMaxArrayElements = 16;

struct KvDtype {
  const char* name;
  int64_t bytes;  // per element
};
constexpr std::array<KvDtype, 3> kKvDtypes = {{{"float32", 4}, {"float16", 2}, {"bfloat16", 2}}};

// K and V of one token in all layers.
int64_t KvBytesPerToken(const model::ModelConfig& config, int64_t bytes_per_element) {
  return 2 * int64_t{config.num_layers} * config.num_kv_heads * config.head_dim * bytes_per_element;
}

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

int64_t WeightBytes(const formats::GgufFile& file) {
  int64_t bytes = 0;
  for (const formats::GgufTensor& tensor : file.tensors()) {
    bytes += static_cast<int64_t>(tensor.stored.size());
  }
  return bytes;
}

// The whole report on one file. `config` is absent, with a reason, for a file that octavo can read
// but not run.
class Inspection {
 public:
  explicit Inspection(const formats::GgufFile& file)
      : file_(file), config_(model::ReadModelConfig(file)) {}

  json::object Json() const {
    json::object metadata;
    for (const formats::GgufKeyValue& entry : file_.key_values()) {
      metadata[text::ReplaceInvalidUtf8(entry.key)] = ValueJson(entry.value);
    }
    json::array tensors;
    for (const formats::GgufTensor& tensor : file_.tensors()) tensors.push_back(TensorJson(tensor));
    json::object object = {{"file", FileJson()}, {"metadata", std::move(metadata)}};
    if (config_.ok()) {
      AddModel(&object);
    } else {
      object["model"] = nullptr;
      object["model_error"] = text::ReplaceInvalidUtf8(config_.status().message());
    }
    object["tensors"] = std::move(tensors);
    return object;
  }

  std::string Text() const {
    std::string out = fmt::format(
        "file      {}\n          GGUF version {}, {} shard{}, {}\n\nmetadata\n", file_.name(),
        file_.version(), file_.num_shards(), file_.num_shards() == 1 ? "" : "s",
        FormatBytes(static_cast<int64_t>(file_.file_bytes())));
    for (const formats::GgufKeyValue& entry : file_.key_values()) {
      out += fmt::format("  {:<44} {}\n", entry.key, formats::FormatValue(entry.value));
    }
    out += "\ntensors\n";
    for (const formats::GgufTensor& tensor : file_.tensors()) {
      out +=
          fmt::format("  {:<44} {:<6} {:<16} {}\n", tensor.name, DTypeName(tensor),
                      FormatShape(tensor), FormatBytes(static_cast<int64_t>(tensor.stored.size())));
    }
    return out + ModelText();
  }

 private:
  json::object FileJson() const {
    return {{"path", text::ReplaceInvalidUtf8(file_.name())},
            {"version", file_.version()},
            {"alignment", file_.alignment()},
            {"num_shards", file_.num_shards()},
            {"bytes", file_.file_bytes()}};
  }

  static json::object TensorJson(const formats::GgufTensor& tensor) {
    json::array shape;
    for (int i = tensor.num_dims - 1; i >= 0; --i) {
      shape.emplace_back(tensor.dims[static_cast<size_t>(i)]);
    }
    return {{"name", text::ReplaceInvalidUtf8(tensor.name)},
            {"dtype", DTypeName(tensor)},
            {"shape", std::move(shape)},
            {"bytes", tensor.stored.size()}};
  }

  void AddModel(json::object* object) const {
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
    json::object per_token, memory = {{"weights", WeightBytes(file_)}};
    for (const KvDtype& dtype : kKvDtypes) {
      per_token[dtype.name] = KvBytesPerToken(config, dtype.bytes);
    }
    memory["kv_cache"] = KvBytesPerToken(config, 2) * config.context_length;
    memory["total"] = WeightBytes(file_) + KvBytesPerToken(config, 2) * config.context_length;
    (*object)["kv_bytes_per_token"] = std::move(per_token);
    (*object)["memory"] = std::move(memory);
  }

  std::string ModelText() const {
    if (!config_.ok()) {
      return fmt::format("\nmodel     octavo cannot run this file: {}\n",
                         config_.status().message());
    }
    const model::ModelConfig& config = *config_;
    std::string out = fmt::format(
        "\nmodel     {} ({})\n  {} layers, hidden {}, FFN {}, {} heads, {} KV heads, head_dim {}, "
        "vocabulary {}, context {} tokens\n\nKV cache, bytes per token (2 * layers * KV heads * "
        "head_dim * "
        "element)\n",
        config.name, config.architecture, config.num_layers, config.hidden_dim, config.ffn_dim,
        config.num_heads, config.num_kv_heads, config.head_dim, config.vocab_size,
        config.context_length);
    for (const KvDtype& dtype : kKvDtypes) {
      out += fmt::format("  {:<10} {:>10}\n", dtype.name, KvBytesPerToken(config, dtype.bytes));
    }
    const int64_t kv_bytes = KvBytesPerToken(config, 2) * config.context_length;
    out += fmt::format(
        "\nmemory, at the full context with float16 K and V\n  {:<10} {:>10}\n  {:<10} {:>10}\n  "
        "{:<10} {:>10}\n",
        "weights", FormatBytes(WeightBytes(file_)), "kv_cache", FormatBytes(kv_bytes), "total",
        FormatBytes(WeightBytes(file_) + kv_bytes));
    return out;
  }

  const formats::GgufFile& file_;
  Result<model::ModelConfig> config_;
};

class InspectCommand : public Command {
 public:
  explicit InspectCommand(CLI::App& app) {
    app.add_option("model", model_,
                   "GGUF file; without it $OCTAVO_MODEL, or else the default model")
        ->type_name("MODEL");
    app.add_flag("--json", json_, "Print one JSON object");
    app.footer(kExamples);
  }

  Status Run() override {
    Result<std::string> path = FindModel(model_);
    if (!path.ok()) return path.status();
    Result<formats::GgufFile> file = formats::GgufFile::Open(*path);
    if (!file.ok()) return file.status();
    const Inspection inspection(*file);
    return WriteStdout(json_ ? json::serialize(inspection.Json()) + "\n" : inspection.Text());
  }

 private:
  std::string model_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> AddInspectCommand(CLI::App& app) {
  return std::make_unique<InspectCommand>(app);
}

}  // namespace octavo::cli
