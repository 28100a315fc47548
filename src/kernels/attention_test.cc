#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <random>
#include <utility>
#include <vector>

#include "base/aligned_memory.h"
#include "kernels/arithmetic_version.h"
#include "kernels/kernel_table.h"
#include "kernels/test_attention.h"

namespace octavo::kernels {
namespace {

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
    for (const auto& [dtype, rows_at_once] : {std::pair{KvDtype::kFloat32, 1},
                                              {KvDtype::kFloat32, 16},
                                              {KvDtype::kInt8, 1},
                                              {KvDtype::kInt8, 16}}) {
      const Shape shape{1, 3, 64, 16, dtype, true};
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
    for (const auto& [bad, dtype] : {std::pair{kNaN, KvDtype::kFloat32},
                                     {kInfinity, KvDtype::kFloat32},
                                     {kNaN, KvDtype::kInt8},
                                     {kInfinity, KvDtype::kInt8}}) {
      for (const int64_t position : {0, 20, 40, 270}) {
        const Shape shape{1, 2, 64, 16, dtype, true};
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
  for (const KvDtype dtype : {KvDtype::kFloat32, KvDtype::kInt8}) {
    for (const float factor : {1e-38f, 1e-30f, 1e-3f, 30.0f, 1e4f, 1e18f, 1e37f}) {
      const Shape shape{1, 3, 64, 16, dtype, true};
      Problem problem(shape, 600, 16);
      for (float& q : problem.q) q *= factor;
      const std::vector<float> expected = problem.Run(Reference(), 16);
      for (const KernelTable* twin : Twins()) {
        ASSERT_TRUE(SameBits(problem.Run(twin->attention, 16), expected)) << twin->name;
        ASSERT_TRUE(SameBits(problem.Run(twin->attention, 1), expected)) << twin->name;
      }
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

// INT8: the codes of K, V and q lie within half a step, max / 254, of their values. For normal K
// and V and a q of deviation 2 that moves a score by 0.02 (one deviation) and an element of V by at
// most 0.014; the codes of a tile's weights move each by at most 0.4 % of the largest. Over the
// dozen positions that share most of a row's weight, a result moves by some 0.015: four times that
// is the bound.
TEST(AttentionTest, TheReferenceIsCloseToSoftmaxInDoublePrecision) {
  for (const auto& [dtype, tolerance] : {std::pair{KvDtype::kFloat32, 4e-6},
                                         {KvDtype::kFloat16, 4e-3},
                                         {KvDtype::kBFloat16, 4e-2},
                                         {KvDtype::kInt8, 6e-2}}) {
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
