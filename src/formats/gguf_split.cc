// How a GgufFile is put together from one file or from the shards of a split file.

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "formats/gguf_file.h"
#include "formats/gguf_parser.h"

namespace octavo::formats {
namespace {

constexpr std::string_view kSplitNo = "split.no";
constexpr std::string_view kSplitCount = "split.count";
constexpr std::string_view kSplitTensorsCount = "split.tensors.count";
constexpr uint64_t kMaxShards = 65535;

// "model-00002-of-00003.gguf" for shard 1 of 3 and prefix "model".
std::string ShardSuffix(uint64_t shard, uint64_t num_shards) {
  return fmt::format("-{:05}-of-{:05}.gguf", shard + 1, num_shards);
}

// A shard's own value of a key that must be an integer, or an error that names the shard.
Result<uint64_t> ShardUint(const GgufShard& shard, const std::string& shard_name,
                           std::string_view key) {
  const GgufValue* value = shard.Find(key);
  if (value == nullptr) {
    return Status::DataLoss(
        fmt::format("{}: key {} is missing from a split file's shard", shard_name, key));
  }
  const std::optional<uint64_t> number = AsUint(*value);
  if (!number) {
    return Status::DataLoss(
        fmt::format("{}: key {} is {} ({}); it must be an integer that is not negative", shard_name,
                    key, FormatValue(*value), DescribeType(*value)));
  }
  return *number;
}

}  // namespace

// Shards that the file says it has. A file that was merged from shards keeps the key with value 0.
Result<uint64_t> GgufFile::SplitCount() const {
  Result<uint64_t> count = GetUintOr(kSplitCount, 1);
  if (!count.ok()) return count;
  if (*count > kMaxShards) {
    return Status::DataLoss(
        fmt::format("{}: key {} is {}; the limit is {}", name_, kSplitCount, *count, kMaxShards));
  }
  return std::max<uint64_t>(*count, 1);
}

Status GgufFile::AddShard(std::span<const std::byte> bytes, const std::string& shard_name) {
  Result<GgufShard> shard = ParseGgufShard(bytes, shard_name);
  if (!shard.ok()) return shard.status();
  const int shard_index = num_shards_++;
  file_bytes_ += bytes.size();
  if (shard_index == 0) {
    version_ = shard->version;
    alignment_ = shard->alignment;
    string_arrays_ = std::move(shard->string_arrays);
    key_values_ = shard->key_values;
    keys_sorted_ = shard->keys_sorted;
  }
  const Result<uint64_t> split_count = SplitCount();
  if (!split_count.ok()) return split_count.status();
  if (*split_count > 1) {
    if (Status status = CheckSplitKeys(*shard, shard_name, *split_count); !status.ok()) {
      return status;
    }
  }
  for (GgufTensor& tensor : shard->tensors) {
    tensor.shard = shard_index;
    tensors_.push_back(tensor);
  }
  return Status::Ok();
}

Status GgufFile::CheckSplitKeys(const GgufShard& shard, const std::string& shard_name,
                                uint64_t split_count) const {
  const uint64_t expected_no = static_cast<uint64_t>(num_shards_) - 1;
  const Result<uint64_t> no = ShardUint(shard, shard_name, kSplitNo);
  if (!no.ok()) return no.status();
  if (*no != expected_no) {
    if (expected_no == 0) {
      return Status::InvalidArgument(
          fmt::format("{}: {} is {}, so this is not a split file's first shard; open the one whose "
                      "name ends in {}",
                      shard_name, kSplitNo, *no, ShardSuffix(0, split_count)));
    }
    return Status::DataLoss(
        fmt::format("{}: {} is {}; it must be {}", shard_name, kSplitNo, *no, expected_no));
  }
  const Result<uint64_t> count = ShardUint(shard, shard_name, kSplitCount);
  if (!count.ok()) return count.status();
  if (*count != split_count) {
    return Status::DataLoss(fmt::format("{}: {} is {}, but the first shard says {}", shard_name,
                                        kSplitCount, *count, split_count));
  }
  return Status::Ok();
}

Status GgufFile::Finish() {
  const Result<uint64_t> split_count = SplitCount();
  if (!split_count.ok()) return split_count.status();
  if (*split_count != static_cast<uint64_t>(num_shards_)) {
    return Status::DataLoss(fmt::format("{}: {} is {}, but {} shards were given", name_,
                                        kSplitCount, *split_count, num_shards_));
  }
  if (*split_count > 1) {
    const Result<uint64_t> num_tensors = GetUint(kSplitTensorsCount);
    if (!num_tensors.ok()) return num_tensors.status();
    if (*num_tensors != tensors_.size()) {
      return Status::DataLoss(fmt::format("{}: {} is {}, but the shards hold {}", name_,
                                          kSplitTensorsCount, *num_tensors, tensors_.size()));
    }
  }
  names_sorted_ = SortedPositions(tensors_, &GgufTensor::name);
  const GgufTensor* duplicate = FindDuplicate(tensors_, names_sorted_, &GgufTensor::name);
  if (duplicate != nullptr) {
    return Status::DataLoss(
        fmt::format("{}: tensor {} appears twice", name_, Quote(duplicate->name)));
  }
  return Status::Ok();
}

Result<GgufFile> GgufFile::FromShards(std::span<const std::span<const std::byte>> shards,
                                      std::string name) {
  GgufFile file;
  file.name_ = std::move(name);
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string shard_name =
        shards.size() == 1 ? file.name_ : fmt::format("{} shard {}", file.name_, i + 1);
    if (Status status = file.AddShard(shards[i], shard_name); !status.ok()) return status;
  }
  if (Status status = file.Finish(); !status.ok()) return status;
  return file;
}

Result<GgufFile> GgufFile::Open(const std::string& path) {
  GgufFile file;
  file.name_ = path;
  if (Status status = file.MapShard(path); !status.ok()) return status;
  const Result<uint64_t> split_count = file.SplitCount();
  if (!split_count.ok()) return split_count.status();

  if (*split_count > 1) {
    const std::string first_suffix = ShardSuffix(0, *split_count);
    if (!path.ends_with(first_suffix)) {
      return Status::InvalidArgument(
          fmt::format("{}: {} is {}, so the first shard's name must end in {}", path, kSplitCount,
                      *split_count, first_suffix));
    }
    const std::string prefix = path.substr(0, path.size() - first_suffix.size());
    for (uint64_t i = 1; i < *split_count; ++i) {
      Status status = file.MapShard(prefix + ShardSuffix(i, *split_count));
      if (!status.ok()) return status;
    }
  }
  if (Status status = file.Finish(); !status.ok()) return status;
  return file;
}

Status GgufFile::MapShard(const std::string& path) {
  Result<base::MappedFile> mapped = base::MappedFile::Open(path);
  if (!mapped.ok()) return mapped.status();
  files_.push_back(std::move(*mapped));
  return AddShard(files_.back().bytes(), path);
}

}  // namespace octavo::formats
