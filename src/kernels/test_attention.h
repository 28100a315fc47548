#pragma once

// Purpose:    what the tests of attention share: blocks of random K and V, rows that attend to
//             them, and the comparison bit by bit.
// Ownership:  Cache owns its blocks and their table.
// Threading:  one thread.
// Invariants: every byte that nobody stored is 0xff: a NaN in each float format, and in the scales
//             of INT8.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/aligned_memory.h"
#include "kernels/arithmetic_version.h"
#include "kernels/kernel_table.h"

namespace octavo::kernels {

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr KvDtype kDtypes[] = {KvDtype::kFloat32, KvDtype::kFloat16, KvDtype::kBFloat16,
                                      KvDtype::kInt8};

inline const AttentionKernels& Reference() { return FindKernels(Isa::kReference)->attention; }

inline std::vector<const KernelTable*> Twins() {
  std::vector<const KernelTable*> twins;
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kNeon}) {
    if (const KernelTable* table = FindKernels(isa)) twins.push_back(table);
  }
  return twins;
}

inline std::vector<const KernelTable*> AllTables() {
  std::vector<const KernelTable*> tables = Twins();
  tables.push_back(FindKernels(Isa::kReference));
  return tables;
}

inline std::vector<float> RandomFloats(size_t count, std::mt19937& random, float deviation = 1.0f) {
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

struct Shape {
  int32_t num_kv_heads = 1;
  int32_t group_size = 1;
  int32_t head_dim = 64;
  int32_t block_size_tokens = 16;
  KvDtype dtype = KvDtype::kFloat16;
  bool scattered = true;
};

inline std::string Name(const Shape& shape) {
  return "dtype " + std::to_string(static_cast<int>(shape.dtype)) + " block " +
         std::to_string(shape.block_size_tokens) + " head_dim " + std::to_string(shape.head_dim) +
         " group " + std::to_string(shape.group_size);
}

inline size_t RoundUp64(size_t bytes) { return (bytes + 63) / 64 * 64; }

// The blocks of one layer and one sequence. Every byte starts as 0xff, which is a NaN in each
// format.
class Cache {
 public:
  Cache(const Shape& shape, int64_t num_tokens, uint32_t seed = 1) : shape_(shape) {
    const size_t element_bytes = shape.dtype == KvDtype::kInt8      ? 1
                                 : shape.dtype == KvDtype::kFloat32 ? 4
                                                                    : 2;
    const auto block_size = static_cast<size_t>(shape.block_size_tokens);
    const size_t half_bytes =
        RoundUp64(element_bytes * static_cast<size_t>(shape.head_dim) * block_size);
    const size_t scale_bytes = shape.dtype == KvDtype::kInt8 ? RoundUp64(4 * block_size) : 0;
    const size_t head_bytes = 2 * half_bytes + scale_bytes;
    const int64_t num_blocks = (num_tokens + shape.block_size_tokens - 1) / shape.block_size_tokens;
    table_.resize(static_cast<size_t>(num_blocks));
    std::iota(table_.begin(), table_.end(), 0);
    std::mt19937 random(seed);
    if (shape.scattered) std::shuffle(table_.begin(), table_.end(), random);
    const size_t block_bytes = head_bytes * static_cast<size_t>(shape.num_kv_heads);
    memory_ = base::AlignedBuffer::Allocate(block_bytes * table_.size());
    std::memset(memory_.data(), 0xff, memory_.size_bytes());
    view_ = {.base = memory_.data(),
             .block_stride_bytes = block_bytes,
             .head_stride_bytes = head_bytes,
             .v_offset_bytes = half_bytes,
             .block_table = table_.data(),
             .block_size_tokens = shape.block_size_tokens,
             .head_dim = shape.head_dim,
             .dtype = shape.dtype};
  }

  // k, v: [tokens, num_kv_heads * head_dim], from position 0.
  void Fill(const AttentionKernels& kernels, const std::vector<float>& k,
            const std::vector<float>& v) {
    const size_t width = static_cast<size_t>(shape_.num_kv_heads * shape_.head_dim);
    for (size_t token = 0; token < k.size() / width; ++token) {
      kernels.store_kv(view_, static_cast<int64_t>(token), shape_.num_kv_heads, &k[token * width],
                       &v[token * width]);
    }
  }

  // Random bytes everywhere: what is stored must be filled in again.
  void Scramble(uint32_t seed) {
    std::mt19937 random(seed);
    for (std::byte& byte : memory_.As<std::byte>()) byte = static_cast<std::byte>(random());
  }

  const PagedKvView& view() const { return view_; }
  std::vector<std::byte> Bytes() const {
    return {memory_.data(), memory_.data() + memory_.size_bytes()};
  }

 private:
  Shape shape_;
  std::vector<uint32_t> table_;
  base::AlignedBuffer memory_;
  PagedKvView view_;
};

inline constexpr int64_t kChunkTiles = kAttentionChunkTokens / kAttentionTileTokens;

inline TileSpan TilesOf(int64_t chunk) { return {chunk * kChunkTiles, (chunk + 1) * kChunkTiles}; }

// Runs the rows at positions [first_position, first_position + num_rows), `rows_at_once` in a call,
// through every chunk. q: [num_rows, num_heads * head_dim]; the result has q's shape.
inline std::vector<float> Attend(const AttentionKernels& kernels, const Shape& shape,
                                 const Cache& cache, const std::vector<float>& q,
                                 int64_t first_position, int64_t rows_at_once) {
  const int64_t width = int64_t{shape.num_kv_heads} * shape.group_size * shape.head_dim;
  const int64_t num_rows = std::ssize(q) / width;
  const int64_t partial_floats = PartialFloats(shape.head_dim);
  const float scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
  auto scratch = base::AlignedBuffer::Allocate(
      static_cast<size_t>(AttentionScratchFloats(shape.head_dim)) * sizeof(float));
  const size_t partial_bytes =
      static_cast<size_t>(kMaxAttentionRows * shape.group_size * partial_floats) * sizeof(float);
  auto running = base::AlignedBuffer::Allocate(partial_bytes);
  auto next = base::AlignedBuffer::Allocate(partial_bytes);
  std::vector<float> out(q.size());
  for (int64_t kv_head = 0; kv_head < shape.num_kv_heads; ++kv_head) {
    for (int64_t begin = 0; begin < num_rows; begin += rows_at_once) {
      const int64_t end = std::min(begin + rows_at_once, num_rows);
      for (int64_t chunk = 0; chunk * kAttentionChunkTokens < first_position + end; ++chunk) {
        // Rows that see nothing of this chunk are left out.
        const int64_t first = std::max(begin, chunk * kAttentionChunkTokens - first_position);
        std::memset(next.data(), 0xff, partial_bytes);
        float* partial = chunk == 0 ? running.As<float>().data() : next.As<float>().data();
        partial += (first - begin) * shape.group_size * partial_floats;
        const QueryRows rows{
            q.data() + first * width, width, end - first, first_position + first, 1,
            shape.group_size,         scale};
        kernels.attend_tiles(cache.view(), rows, kv_head, TilesOf(chunk),
                             scratch.As<float>().data(), partial);
        for (int64_t i = (first - begin) * shape.group_size;
             chunk > 0 && i < (end - begin) * shape.group_size; ++i) {
          kernels.fold_partial(running.As<float>().data() + i * partial_floats,
                               next.As<float>().data() + i * partial_floats, shape.head_dim);
        }
      }
      for (int64_t i = 0; i < (end - begin) * shape.group_size; ++i) {
        const int64_t head = kv_head * shape.group_size + i % shape.group_size;
        kernels.finish(running.As<float>().data() + i * partial_floats, shape.head_dim,
                       out.data() + (begin + i / shape.group_size) * width + head * shape.head_dim);
      }
    }
  }
  return out;
}

// The same bits, or both NaN.
inline ::testing::AssertionResult SameBits(const std::vector<float>& a,
                                           const std::vector<float>& b) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << "sizes differ";
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i])) {
      return ::testing::AssertionFailure() << "at " << i << ": " << a[i] << " and " << b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

inline bool AllFinite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

// One sequence of random K and V and `num_rows` rows that end at its last position.
struct Problem {
  Problem(const Shape& s, int64_t last_position, int64_t num_rows, uint32_t seed = 3)
      : shape(s), first_position(last_position + 1 - num_rows), cache(s, last_position + 1, seed) {
    std::mt19937 random(seed);
    const size_t kv_floats =
        static_cast<size_t>(last_position + 1) * static_cast<size_t>(s.num_kv_heads * s.head_dim);
    k = RandomFloats(kv_floats, random);
    v = RandomFloats(kv_floats, random);
    q = RandomFloats(static_cast<size_t>(num_rows) *
                         static_cast<size_t>(s.num_kv_heads * s.group_size * s.head_dim),
                     random, 2.0f);
    cache.Fill(Reference(), k, v);
  }
  std::vector<float> Run(const AttentionKernels& kernels, int64_t rows_at_once) const {
    return Attend(kernels, shape, cache, q, first_position, rows_at_once);
  }

  Shape shape;
  int64_t first_position;
  Cache cache;
  std::vector<float> k, v, q;
};

// Softmax attention of one head in double precision, over the values as given.
inline std::vector<double> Oracle(const Problem& problem, int64_t row, int64_t head) {
  const Shape& shape = problem.shape;
  const int64_t kv_width = int64_t{shape.num_kv_heads} * shape.head_dim;
  const float* q =
      problem.q.data() + (row * shape.num_kv_heads * shape.group_size + head) * shape.head_dim;
  const int64_t kv_offset = head / shape.group_size * shape.head_dim;
  const int64_t num_visible = problem.first_position + row + 1;
  std::vector<double> weights(static_cast<size_t>(num_visible));
  for (int64_t j = 0; j < num_visible; ++j) {
    const float* k = problem.k.data() + j * kv_width + kv_offset;
    double score = 0.0;
    for (int64_t d = 0; d < shape.head_dim; ++d) score += double{q[d]} * k[d];
    weights[static_cast<size_t>(j)] = score / std::sqrt(static_cast<double>(shape.head_dim));
  }
  const double max = *std::max_element(weights.begin(), weights.end());
  double sum = 0.0;
  for (double& weight : weights) sum += weight = std::exp(weight - max);
  std::vector<double> out(static_cast<size_t>(shape.head_dim));
  for (int64_t j = 0; j < num_visible; ++j) {
    const float* v = problem.v.data() + j * kv_width + kv_offset;
    for (size_t d = 0; d < out.size(); ++d) out[d] += weights[static_cast<size_t>(j)] / sum * v[d];
  }
  return out;
}

}  // namespace octavo::kernels
