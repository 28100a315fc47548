#include "kernels/attention.h"

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
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr KvDtype kDtypes[] = {KvDtype::kFloat32, KvDtype::kFloat16, KvDtype::kBFloat16};

const AttentionKernels& Reference() { return FindKernels(Isa::kReference)->attention; }

std::vector<const KernelTable*> Twins() {
  std::vector<const KernelTable*> twins;
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kNeon}) {
    if (const KernelTable* table = FindKernels(isa)) twins.push_back(table);
  }
  return twins;
}

std::vector<const KernelTable*> AllTables() {
  std::vector<const KernelTable*> tables = Twins();
  tables.push_back(FindKernels(Isa::kReference));
  return tables;
}

std::vector<float> RandomFloats(size_t count, std::mt19937& random, float deviation = 1.0f) {
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

std::string Name(const Shape& shape) {
  return "dtype " + std::to_string(static_cast<int>(shape.dtype)) + " block " +
         std::to_string(shape.block_size_tokens) + " head_dim " + std::to_string(shape.head_dim) +
         " group " + std::to_string(shape.group_size);
}

size_t RoundUp64(size_t bytes) { return (bytes + 63) / 64 * 64; }

// The blocks of one layer and one sequence. Every byte starts as 0xff, which is a NaN in each
// format.
class Cache {
 public:
  Cache(const Shape& shape, int64_t num_tokens, uint32_t seed = 1) : shape_(shape) {
    const size_t element_bytes = shape.dtype == KvDtype::kFloat32 ? 4 : 2;
    const size_t half_bytes = RoundUp64(element_bytes * static_cast<size_t>(shape.head_dim) *
                                        static_cast<size_t>(shape.block_size_tokens));
    const int64_t num_blocks = (num_tokens + shape.block_size_tokens - 1) / shape.block_size_tokens;
    table_.resize(static_cast<size_t>(num_blocks));
    std::iota(table_.begin(), table_.end(), 0);
    std::mt19937 random(seed);
    if (shape.scattered) std::shuffle(table_.begin(), table_.end(), random);
    const size_t block_bytes = 2 * half_bytes * static_cast<size_t>(shape.num_kv_heads);
    memory_ = base::AlignedBuffer::Allocate(block_bytes * table_.size());
    std::memset(memory_.data(), 0xff, memory_.size_bytes());
    view_ = {.base = memory_.data(),
             .block_stride_bytes = block_bytes,
             .head_stride_bytes = 2 * half_bytes,
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

constexpr int64_t kChunkTiles = kAttentionChunkTokens / kAttentionTileTokens;

TileSpan TilesOf(int64_t chunk) { return {chunk * kChunkTiles, (chunk + 1) * kChunkTiles}; }

// Runs the rows at positions [first_position, first_position + num_rows), `rows_at_once` in a call,
// through every chunk. q: [num_rows, num_heads * head_dim]; the result has q's shape.
std::vector<float> Attend(const AttentionKernels& kernels, const Shape& shape, const Cache& cache,
                          const std::vector<float>& q, int64_t first_position,
                          int64_t rows_at_once) {
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
::testing::AssertionResult SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << "sizes differ";
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i])) {
      return ::testing::AssertionFailure() << "at " << i << ": " << a[i] << " and " << b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

bool AllFinite(const std::vector<float>& values) {
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

TEST(AttentionTest, TwinsEqualTheReferenceForOneRowAtEveryShape) {
  for (const KvDtype dtype : kDtypes) {
    for (const int32_t block_size : {8, 16, 32, 64, 256}) {
      for (const int32_t head_dim : {64, 80, 96, 128, 8, 72}) {
        for (const int32_t group_size : {1, 3, 4, 7, 8, 32}) {
          const Shape shape{1, group_size, head_dim, block_size, dtype, true};
          for (const int64_t position : {0, 1, 15, 16, 31, 32, 300}) {
            const Problem problem(shape, position, 1);
            const std::vector<float> expected = problem.Run(Reference(), 1);
            ASSERT_TRUE(AllFinite(expected)) << "a masked slot was read";
            for (const KernelTable* twin : Twins()) {
              ASSERT_TRUE(SameBits(problem.Run(twin->attention, 1), expected))
                  << twin->name << " " << Name(shape) << " position " << position;
            }
          }
        }
      }
    }
  }
}

TEST(AttentionTest, TwinsEqualTheReferenceAcrossChunks) {
  for (const KvDtype dtype : kDtypes) {
    for (const int32_t group_size : {1, 3, 5}) {
      const Shape shape{2, group_size, 64, 16, dtype, true};
      for (const int64_t position : {254, 255, 256, 257, 511, 512, 700}) {
        const Problem problem(shape, position, 1);
        const std::vector<float> expected = problem.Run(Reference(), 1);
        ASSERT_TRUE(AllFinite(expected));
        for (const KernelTable* twin : Twins()) {
          ASSERT_TRUE(SameBits(problem.Run(twin->attention, 1), expected))
              << twin->name << " " << Name(shape) << " position " << position;
        }
      }
    }
  }
}

TEST(AttentionTest, TwinsEqualTheReferenceForManyRows) {
  for (const KvDtype dtype : kDtypes) {
    for (const int32_t block_size : {8, 16, 64}) {
      for (const int32_t group_size : {1, 3, 7, 32}) {
        const Shape shape{1, group_size, group_size == 3 ? 64 : 40, block_size, dtype, true};
        for (const int64_t num_rows : {2, 5, 16, 19}) {
          for (const int64_t last : {18, 40, 263}) {
            const Problem problem(shape, last, num_rows);
            const std::vector<float> expected = problem.Run(Reference(), 16);
            ASSERT_TRUE(AllFinite(expected));
            for (const KernelTable* twin : Twins()) {
              ASSERT_TRUE(SameBits(problem.Run(twin->attention, 16), expected))
                  << twin->name << " " << Name(shape) << " rows " << num_rows << " last " << last;
            }
          }
        }
      }
    }
  }
}

TEST(AttentionTest, ARowHasTheSameBitsAloneAndInAnyGroupOfRows) {
  for (const KernelTable* table : AllTables()) {
    for (const KvDtype dtype : kDtypes) {
      const Shape shape{1, 3, 64, 16, dtype, true};
      const Problem problem(shape, 290, 45);
      const std::vector<float> alone = problem.Run(table->attention, 1);
      for (const int64_t rows_at_once : {2, 3, 7, 13, 16}) {
        ASSERT_TRUE(SameBits(problem.Run(table->attention, rows_at_once), alone))
            << table->name << " " << Name(shape) << " rows at once " << rows_at_once;
      }
    }
  }
}

TEST(AttentionTest, BlockSizeAndPlacementDoNotChangeABit) {
  for (const KernelTable* table : AllTables()) {
    for (const KvDtype dtype : kDtypes) {
      for (const int64_t rows_at_once : {1, 16}) {
        const Shape first{1, 3, 64, 8, dtype, false};
        const std::vector<float> expected =
            Problem(first, 333, 17).Run(table->attention, rows_at_once);
        for (const int32_t block_size : {8, 16, 32, 64, 128, 256}) {
          for (const bool scattered : {false, true}) {
            Shape shape = first;
            shape.block_size_tokens = block_size;
            shape.scattered = scattered;
            ASSERT_TRUE(
                SameBits(Problem(shape, 333, 17).Run(table->attention, rows_at_once), expected))
                << table->name << " " << Name(shape) << " scattered " << scattered;
          }
        }
      }
    }
  }
}

// Rows of several sequences: the tiles up to cuts.back() in the first one's cache for all of them
// together, from each cut to the next; what follows, up to last_position, in their own caches.
std::vector<float> AttendShared(const AttentionKernels& kernels, const Shape& shape,
                                const std::vector<const Cache*>& caches,
                                const std::vector<float>& q, int64_t last_position,
                                const std::vector<int64_t>& cuts) {
  const int64_t width = int64_t{shape.group_size} * shape.head_dim;
  const int64_t row_floats = shape.group_size * PartialFloats(shape.head_dim);
  const auto num_rows = std::ssize(caches);
  auto scratch = base::AlignedBuffer::Allocate(
      static_cast<size_t>(AttentionScratchFloats(shape.head_dim)) * sizeof(float));
  auto partials =
      base::AlignedBuffer::Allocate(static_cast<size_t>(num_rows * row_floats) * sizeof(float));
  std::memset(partials.data(), 0xff, partials.size_bytes());
  QueryRows rows{q.data(),
                 width,
                 num_rows,
                 0,
                 0,
                 shape.group_size,
                 1.0f / std::sqrt(static_cast<float>(shape.head_dim))};
  for (size_t i = 1; i < cuts.size(); ++i) {
    rows.first_position = cuts[i] * kAttentionTileTokens - 1;
    kernels.attend_tiles(caches[0]->view(), rows, 0, {cuts[i - 1], cuts[i]},
                         scratch.As<float>().data(), partials.As<float>().data());
  }
  std::vector<float> out(q.size());
  for (int64_t row = 0; row < num_rows; ++row) {
    float* running = partials.As<float>().data() + row * row_floats;
    const QueryRows alone{q.data() + row * width, width,     1, last_position, 0,
                          shape.group_size,       rows.scale};
    kernels.attend_tiles(caches[static_cast<size_t>(row)]->view(), alone, 0,
                         {cuts.back(), kChunkTiles}, scratch.As<float>().data(), running);
    for (int64_t g = 0; g < shape.group_size; ++g) {
      kernels.finish(running + g * PartialFloats(shape.head_dim), shape.head_dim,
                     out.data() + row * width + g * shape.head_dim);
    }
  }
  return out;
}

TEST(AttentionTest, SequencesThatVisitSharedTilesTogetherGiveTheBitsOfEachAlone) {
  constexpr int64_t kLast = 200;          // within the seventh tile
  constexpr int64_t kSharedTokens = 160;  // five tiles
  for (const KernelTable* table : AllTables()) {
    for (const KvDtype dtype : kDtypes) {
      for (const int32_t block_size : {8, 16, 64}) {
        for (const int32_t group_size : {1, 3, 8}) {
          for (const int num_rows : {2, 17}) {
            const Shape shape{1, group_size, 72, block_size, dtype, true};
            // The same first tokens, then some of their own.
            const Problem common(shape, kLast, 1, 5);
            std::vector<Problem> problems;
            std::vector<const Cache*> caches;
            std::vector<float> q, expected;
            for (int i = 0; i < num_rows; ++i) {
              Problem& own = problems.emplace_back(shape, kLast, 1, static_cast<uint32_t>(6 + i));
              std::copy_n(common.k.begin(), kSharedTokens * 72, own.k.begin());
              std::copy_n(common.v.begin(), kSharedTokens * 72, own.v.begin());
              own.cache.Fill(Reference(), own.k, own.v);
              q.insert(q.end(), own.q.begin(), own.q.end());
              const std::vector<float> alone = own.Run(Reference(), 1);
              expected.insert(expected.end(), alone.begin(), alone.end());
            }
            for (const Problem& problem : problems) caches.push_back(&problem.cache);
            for (const std::vector<int64_t>& cuts :
                 {std::vector<int64_t>{0, 5}, {0, 1, 2, 3, 4, 5}, {0, 2}, {0, 3, 4}}) {
              ASSERT_TRUE(
                  SameBits(AttendShared(table->attention, shape, caches, q, kLast, cuts), expected))
                  << table->name << " " << Name(shape) << " rows " << num_rows;
            }
          }
        }
      }
    }
  }
}

// A later row's K and V may already lie in the blocks when an earlier row is computed.
TEST(AttentionTest, KeysAfterARowNeverReachIt) {
  for (const KernelTable* table : AllTables()) {
    for (const int64_t rows_at_once : {1, 16}) {
      const Shape shape{1, 3, 64, 16, KvDtype::kFloat32, true};
      Problem problem(shape, 52, 16);
      const std::vector<float> before = problem.Run(table->attention, rows_at_once);
      // Position 52 becomes NaN and infinity: only its own row may change.
      const std::vector<float> bad_k(64, kNaN);
      const std::vector<float> bad_v(64, kInfinity);
      table->attention.store_kv(problem.cache.view(), 52, 1, bad_k.data(), bad_v.data());
      const std::vector<float> after = problem.Run(table->attention, rows_at_once);

      const ptrdiff_t last_row = 15 * 3 * 64;
      ASSERT_TRUE(SameBits({before.begin(), before.begin() + last_row},
                           {after.begin(), after.begin() + last_row}))
          << table->name;
      EXPECT_TRUE(std::all_of(after.begin() + last_row, after.end(), [](float x) {
        return std::isnan(x);
      })) << table->name;
    }
  }
}

TEST(AttentionTest, ANaNOrInfiniteScoreMakesTheRowNaNOnEveryTable) {
  for (const KernelTable* table : AllTables()) {
    for (const float bad : {kNaN, kInfinity}) {
      for (const int64_t position : {0, 20, 40, 270}) {
        const Shape shape{1, 2, 64, 16, KvDtype::kFloat32, true};
        Problem problem(shape, 300, 1);
        const std::vector<float> k(64, bad);
        const std::vector<float> v(64, 1.0f);
        table->attention.store_kv(problem.cache.view(), position, 1, k.data(), v.data());
        const std::vector<float> out = problem.Run(table->attention, 1);
        EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](float x) { return std::isnan(x); }))
            << table->name << " " << bad << " at " << position;
      }
    }
  }
}

TEST(AttentionTest, HugeAndTinyScoresHaveTheSameBitsOnEveryTable) {
  for (const float factor : {1e-30f, 1e-3f, 30.0f, 1e4f, 1e18f}) {
    const Shape shape{1, 3, 64, 16, KvDtype::kFloat32, true};
    Problem problem(shape, 600, 16);
    for (float& q : problem.q) q *= factor;
    const std::vector<float> expected = problem.Run(Reference(), 16);
    for (const KernelTable* twin : Twins()) {
      ASSERT_TRUE(SameBits(problem.Run(twin->attention, 16), expected)) << twin->name;
      ASSERT_TRUE(SameBits(problem.Run(twin->attention, 1), expected)) << twin->name;
    }
  }
}

TEST(AttentionTest, StoredBlocksAreTheSameBytesOnEveryTable) {
  std::mt19937 random(9);
  for (const KvDtype dtype : kDtypes) {
    for (const int32_t block_size : {8, 16, 64}) {
      const Shape shape{2, 1, 40, block_size, dtype, true};
      std::vector<float> k = RandomFloats(70 * 80, random, 100.0f);
      const std::vector<float> v = RandomFloats(70 * 80, random, 1e-6f);
      const float specials[] = {0.0f,       -0.0f, 65519.0f, 65520.0f, -1e9f,  kInfinity,
                                -kInfinity, 1e-8f, 3e-8f,    -6e-5f,   1e-42f, 3.4e38f};
      std::copy(std::begin(specials), std::end(specials), k.begin() + 200);
      Cache expected(shape, 70);
      expected.Fill(Reference(), k, v);
      for (const KernelTable* twin : Twins()) {
        Cache cache(shape, 70);
        cache.Fill(twin->attention, k, v);
        ASSERT_EQ(cache.Bytes(), expected.Bytes()) << twin->name << " " << Name(shape);
      }
    }
  }
}

// Softmax attention of one head in double precision, over the values as given.
std::vector<double> Oracle(const Problem& problem, int64_t row, int64_t head) {
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

TEST(AttentionTest, TheReferenceIsCloseToSoftmaxInDoublePrecision) {
  for (const auto& [dtype, tolerance] : {std::pair{KvDtype::kFloat32, 4e-6},
                                         {KvDtype::kFloat16, 4e-3},
                                         {KvDtype::kBFloat16, 4e-2}}) {
    for (const int32_t group_size : {1, 3}) {
      const Shape shape{2, group_size, 64, 16, dtype, true};
      const Problem problem(shape, 700, 20);
      const std::vector<float> out = problem.Run(Reference(), 16);
      for (int64_t row = 0; row < 20; ++row) {
        for (int64_t head = 0; head < 2 * group_size; ++head) {
          const std::vector<double> exact = Oracle(problem, row, head);
          const float* actual = out.data() + (row * 2 * group_size + head) * 64;
          for (size_t d = 0; d < 64; ++d) ASSERT_NEAR(actual[d], exact[d], tolerance);
        }
      }
    }
  }
}

TEST(AttentionTest, OneVisibleTokenGivesItsValue) {
  for (const KernelTable* table : AllTables()) {
    const Shape shape{1, 2, 16, 8, KvDtype::kFloat32, false};
    const Problem problem(shape, 0, 1);
    const std::vector<float> out = problem.Run(table->attention, 1);
    for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], problem.v[i % 16]) << table->name;
  }
}

}  // namespace
}  // namespace octavo::kernels
