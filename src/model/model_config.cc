#include "model/model_config.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

namespace octavo::model {
namespace {

constexpr uint64_t kMaxLayers = 1024;
constexpr uint64_t kMaxHeads = 1024;
constexpr uint64_t kMaxWidth = 1 << 18;
constexpr uint64_t kMaxHeadDim = 256;
constexpr uint64_t kMaxContext = 1 << 27;

struct Architecture {
  std::string_view name;
  kernels::RopeLayout rope_layout;
};

// A wrong layout gives fluent nonsense, so it is a table with a test for each row.
constexpr Architecture kArchitectures[] = {
    {"llama", kernels::RopeLayout::kNorm},
    {"qwen2", kernels::RopeLayout::kNeox},
};

// Reads the keys of one file, and keeps the first error.
class ConfigReader {
 public:
  ConfigReader(const formats::GgufFile& file, std::string prefix)
      : file_(file), prefix_(std::move(prefix)) {}

  const Status& status() const { return status_; }

  // A count in [1, limit]; `fallback` where the key is absent and a fallback is given. An array
  // must hold one value only.
  int32_t Count(std::string_view key, uint64_t limit,
                std::optional<uint64_t> fallback = std::nullopt) {
    const std::string full_key = prefix_ + std::string(key);
    if (fallback && file_.Find(full_key) == nullptr) return static_cast<int32_t>(*fallback);
    uint64_t value = 0;
    const Result<std::vector<uint64_t>> values = file_.GetUints(full_key);
    if (values.ok() && !values->empty()) {
      value = values->front();
      for (uint64_t other : *values) {
        if (other != value) {
          Fail(Status::Unimplemented(fmt::format(
              "{}: {} differs between layers ({} and {}), which this version does not support",
              file_.name(), full_key, value, other)));
          return 1;
        }
      }
    } else {
      const Result<uint64_t> scalar = file_.GetUint(full_key);
      if (!scalar.ok()) {
        Fail(scalar.status());
        return 1;
      }
      value = *scalar;
    }
    if (value < 1 || value > limit) {
      Fail(Status::DataLoss(fmt::format("{}: {} is {}, but must be in [1, {}]", file_.name(),
                                        full_key, value, limit)));
      return 1;
    }
    return static_cast<int32_t>(value);
  }

  double Positive(std::string_view key, std::optional<double> fallback) {
    const std::string full_key = prefix_ + std::string(key);
    if (fallback && file_.Find(full_key) == nullptr) return *fallback;
    const Result<double> value = file_.GetFloat(full_key);
    if (!value.ok()) {
      Fail(value.status());
      return 1.0;
    }
    if (!(*value > 0.0) || !std::isfinite(*value)) {
      Fail(Status::DataLoss(fmt::format("{}: {} is {}, but must be positive and finite",
                                        file_.name(), full_key, *value)));
      return 1.0;
    }
    return *value;
  }

  std::string Text(std::string_view key, std::string_view fallback) {
    const Result<std::string_view> value = file_.GetStringOr(prefix_ + std::string(key), fallback);
    if (!value.ok()) Fail(value.status());
    return std::string(value.ok() ? *value : fallback);
  }

  bool Has(std::string_view key) const { return file_.Find(prefix_ + std::string(key)) != nullptr; }

  void Fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

 private:
  const formats::GgufFile& file_;
  std::string prefix_;
  Status status_;
};

RopeConfig ReadRope(ConfigReader& reader, const formats::GgufFile& file, const ModelConfig& config,
                    kernels::RopeLayout layout) {
  RopeConfig rope;
  rope.layout = layout;
  rope.base = reader.Positive("rope.freq_base", 10000.0);
  rope.factor = reader.Positive("rope.scaling.factor", reader.Positive("rope.scale_linear", 1.0));
  rope.original_context_length = reader.Count("rope.scaling.original_context_length", kMaxContext,
                                              static_cast<uint64_t>(config.context_length));
  rope.attention_factor = reader.Positive("rope.scaling.attn_factor", 1.0);
  rope.yarn_beta_fast = reader.Positive("rope.scaling.yarn_beta_fast", 32.0);
  rope.yarn_beta_slow = reader.Positive("rope.scaling.yarn_beta_slow", 1.0);

  // A file that gives a factor without a type means linear.
  const bool has_factor = reader.Has("rope.scale_linear") || reader.Has("rope.scaling.factor");
  const std::string type = reader.Text("rope.scaling.type", has_factor ? "linear" : "none");
  if (type == "none") {
    rope.scaling = RopeScaling::kNone;
  } else if (type == "linear") {
    rope.scaling = RopeScaling::kLinear;
  } else if (type == "yarn") {
    rope.scaling = RopeScaling::kYarn;
  } else if (type == "longrope") {
    rope.scaling = RopeScaling::kLongRope;
  } else {
    reader.Fail(Status::Unimplemented(fmt::format(
        "{}: {}.rope.scaling.type is \"{}\"; supported are none, linear, yarn and longrope",
        file.name(), config.architecture, type)));
  }
  return rope;
}

Status CheckShape(const ModelConfig& config, const std::string& file) {
  if (config.num_heads % config.num_kv_heads != 0) {
    return Status::DataLoss(
        fmt::format("{}: {}.attention.head_count is {}, which is no multiple of head_count_kv {}",
                    file, config.architecture, config.num_heads, config.num_kv_heads));
  }
  if (config.head_dim % 8 != 0) {
    return Status::Unimplemented(
        fmt::format("{}: the head dimension is {}, but must be a multiple of 8 up to {}", file,
                    config.head_dim, kMaxHeadDim));
  }
  if (config.rot_dim % 2 != 0 || config.rot_dim > config.head_dim) {
    return Status::DataLoss(fmt::format(
        "{}: {}.rope.dimension_count is {}, but must be even and at most the head dimension {}",
        file, config.architecture, config.rot_dim, config.head_dim));
  }
  return Status::Ok();
}

Result<Architecture> FindArchitecture(const formats::GgufFile& file) {
  const Result<std::string_view> name = file.GetString("general.architecture");
  if (!name.ok()) return name.status();
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name == *name) return architecture;
  }
  return Status::Unimplemented(
      fmt::format("{}: general.architecture is {}; supported are llama and qwen2", file.name(),
                  formats::Quote(*name)));
}

Status CheckUnsupported(const formats::GgufFile& file, const std::string& prefix) {
  for (const char* key : {"expert_count", "attn_logit_softcapping", "final_logit_softcapping"}) {
    const std::string full_key = prefix + key;
    if (file.Find(full_key) == nullptr) continue;
    const Result<uint64_t> count = file.GetUint(full_key);
    if (count.ok() && *count == 0) continue;
    return Status::Unimplemented(
        fmt::format("{}: {} is set, which this version does not support", file.name(), full_key));
  }
  return Status::Ok();
}

}  // namespace

Result<ModelConfig> ReadModelConfig(const formats::GgufFile& file) {
  const Result<Architecture> architecture = FindArchitecture(file);
  if (!architecture.ok()) return architecture.status();

  ModelConfig config;
  config.architecture = architecture->name;
  const std::string prefix = config.architecture + ".";
  if (Status status = CheckUnsupported(file, prefix); !status.ok()) return status;
  const Result<std::string_view> name = file.GetStringOr("general.name", "");
  if (!name.ok()) return name.status();
  config.name = *name;

  const formats::GgufTensor* embedding = file.FindTensor("token_embd.weight");
  if (embedding == nullptr || embedding->num_dims != 2) {
    return Status::DataLoss(file.name() +
                            ": tensor token_embd.weight with two dimensions is missing; is this a "
                            "vocabulary-only file?");
  }

  ConfigReader reader(file, prefix);
  config.num_layers = reader.Count("block_count", kMaxLayers);
  config.hidden_dim = reader.Count("embedding_length", kMaxWidth);
  config.ffn_dim = reader.Count("feed_forward_length", kMaxWidth);
  config.num_heads = reader.Count("attention.head_count", kMaxHeads);
  config.num_kv_heads =
      reader.Count("attention.head_count_kv", kMaxHeads, static_cast<uint64_t>(config.num_heads));
  const auto default_head_dim = static_cast<uint64_t>(config.hidden_dim / config.num_heads);
  config.head_dim = reader.Count("attention.key_length", kMaxHeadDim, default_head_dim);
  const int32_t value_dim = reader.Count("attention.value_length", kMaxHeadDim, default_head_dim);
  config.rot_dim =
      reader.Count("rope.dimension_count", kMaxHeadDim, static_cast<uint64_t>(config.head_dim));
  config.context_length = reader.Count("context_length", kMaxContext);
  const double eps = reader.Positive("attention.layer_norm_rms_epsilon", std::nullopt);
  config.rope = ReadRope(reader, file, config, architecture->rope_layout);
  if (!reader.status().ok()) return reader.status();

  if (eps < std::numeric_limits<float>::min() || eps > std::numeric_limits<float>::max()) {
    return Status::DataLoss(
        fmt::format("{}: {}attention.layer_norm_rms_epsilon is {}, which float32 cannot hold",
                    file.name(), prefix, eps));
  }
  config.rms_norm_eps = static_cast<float>(eps);
  if (config.head_dim < 1 || static_cast<uint64_t>(config.head_dim) > kMaxHeadDim) {
    return Status::Unimplemented(fmt::format("{}: the head dimension is {}, but must be in [8, {}]",
                                             file.name(), config.head_dim, kMaxHeadDim));
  }
  if (value_dim != config.head_dim) {
    return Status::Unimplemented(
        fmt::format("{}: {}attention.value_length is {}, but must equal the key length {}",
                    file.name(), prefix, value_dim, config.head_dim));
  }
  if (embedding->dims[1] > std::numeric_limits<int32_t>::max()) {
    return Status::DataLoss(
        fmt::format("{}: token_embd.weight has {} rows, but at most {} are "
                    "possible",
                    file.name(), embedding->dims[1], std::numeric_limits<int32_t>::max()));
  }
  config.vocab_size = static_cast<int32_t>(embedding->dims[1]);
  if (Status status = CheckShape(config, file.name()); !status.ok()) return status;
  return config;
}

}  // namespace octavo::model
