#pragma once

// Purpose:    reads GGUF model files (versions 2 and 3, little-endian, split files included):
// metadata and tensors, all of it
//             checked before it is given out (docs/contracts/gguf.md).
// Ownership:  Open owns the mapped files. FromBytes and FromShards borrow: the caller keeps the
// bytes alive. Every string_view and
//             span that a GgufFile gives out lives as long as it (moving it keeps them valid).
// Threading:  immutable after it is made; any thread may read.
// Invariants: keys are unique and not empty; tensor names are unique; every tensor's data lies
// inside its file, is aligned to
//             alignment() relative to its data section and overlaps no other; its row is a whole
//             number of blocks.
//
// Errors are one line: file, field, value, limit. Codes: kNotFound (no such file; no such key),
// kDataLoss (the file is damaged or contradicts itself, or a key has the wrong type),
// kUnimplemented (version, byte order or tensor type that octavo does not read), kInvalidArgument
// (the caller named the wrong file).

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "formats/gguf_value.h"
#include "octavo/status.h"
#include "tensor/dtype.h"

namespace octavo::formats {

inline constexpr int kMaxTensorDims = 4;

struct GgufKeyValue {
  std::string_view key;
  GgufValue value;
};

struct GgufTensor {
  std::string_view name;
  tensor::DType dtype = tensor::DType::kF32;
  int num_dims = 0;  // 1 .. 4
  std::array<int64_t, kMaxTensorDims> dims = {
      1, 1, 1, 1};                    // dims[0] = columns (contiguous); all >= 1; unused ones are 1
  int64_t num_elements = 0;           // the product of dims
  std::span<const std::byte> stored;  // exactly StoredBytes(dtype, num_elements) bytes
  int shard = 0;                      // 0-based
};

struct GgufShard;

class GgufFile {
 public:
  // Maps the file; given the first shard "prefix-00001-of-0000N.gguf" of a split file, the others
  // as well.
  static Result<GgufFile> Open(const std::string& path);
  // One unsplit file; `name` is what errors call it.
  static Result<GgufFile> FromBytes(std::span<const std::byte> bytes, std::string name = "memory");
  // A split file's shards, in order.
  static Result<GgufFile> FromShards(std::span<const std::span<const std::byte>> shards,
                                     std::string name = "memory");

  const std::string& name() const { return name_; }  // the path that was opened
  uint32_t version() const { return version_; }
  uint32_t alignment() const { return alignment_; }  // bytes
  int num_shards() const { return num_shards_; }
  uint64_t file_bytes() const { return file_bytes_; }  // of all shards

  // --- Metadata: that of the first shard ---
  std::span<const GgufKeyValue> key_values() const { return key_values_; }  // in file order
  const GgufValue* Find(std::string_view key) const;  // null if there is no such key

  // kNotFound if the key is missing, kDataLoss if its value has another type or does not fit.
  Result<uint64_t> GetUint(std::string_view key) const;  // any integer type, not negative
  Result<int64_t> GetInt(std::string_view key) const;    // any integer type
  Result<double> GetFloat(std::string_view key) const;   // f32 (exact) or f64
  Result<bool> GetBool(std::string_view key) const;
  Result<std::string_view> GetString(std::string_view key) const;
  Result<std::span<const std::string_view>> GetStrings(std::string_view key) const;  // string[]
  Result<std::vector<float>> GetFloats(std::string_view key) const;                  // f32[]
  Result<std::vector<int32_t>> GetInt32s(std::string_view key) const;                // i32[]
  // An array of any integer type, no element negative.
  Result<std::vector<uint64_t>> GetUints(std::string_view key) const;

  // As above, but `fallback` if the key is missing. A wrong type is an error all the same.
  Result<uint64_t> GetUintOr(std::string_view key, uint64_t fallback) const;
  Result<double> GetFloatOr(std::string_view key, double fallback) const;
  Result<bool> GetBoolOr(std::string_view key, bool fallback) const;
  Result<std::string_view> GetStringOr(std::string_view key, std::string_view fallback) const;

  // --- Tensors: those of all shards ---
  std::span<const GgufTensor> tensors() const { return tensors_; }   // in file order
  const GgufTensor* FindTensor(std::string_view tensor_name) const;  // null if there is none
  // `stored`, a part of a tensor, is done with for now: the RAM of a mapped file's pages is given
  // back; reading them again is right, and slower. Borrowed bytes stay as they are.
  void ReleasePages(std::span<const std::byte> stored) const;

 private:
  GgufFile() = default;
  // Putting a file together, in this order: each shard once, then Finish.
  Status MapShard(const std::string& path);
  Status AddShard(std::span<const std::byte> bytes, const std::string& shard_name);
  Status CheckSplitKeys(const GgufShard& shard, const std::string& shard_name,
                        uint64_t split_count) const;
  Status Finish();
  Result<uint64_t> SplitCount() const;

  Result<const GgufValue*> Require(std::string_view key) const;
  Result<const GgufArray*> RequireArray(std::string_view key, GgufType element_type) const;
  Status WrongType(std::string_view key, const GgufValue& value, std::string_view wanted) const;

  std::string name_;
  uint32_t version_ = 0;
  uint32_t alignment_ = 0;
  int num_shards_ = 0;
  uint64_t file_bytes_ = 0;
  std::vector<base::MappedFile> files_;  // empty if the bytes are borrowed
  std::vector<std::vector<std::string_view>> string_arrays_;
  std::vector<GgufKeyValue> key_values_;
  std::vector<GgufTensor> tensors_;
  // Positions in key_values_ and tensors_, sorted by key and by name.
  std::vector<uint32_t> keys_sorted_;
  std::vector<uint32_t> names_sorted_;
};

}  // namespace octavo::formats
