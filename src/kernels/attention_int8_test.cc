// What is peculiar to INT8 K and V (arithmetic.md A8b and A9): the codes and scales that are
// stored, and attention over them. What all formats have in common is in attention_test.cc.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <random>
#include <utility>
#include <vector>

#include "kernels/attention.h"
#include "kernels/canonical_math.h"
#include "kernels/test_attention.h"

namespace octavo::kernels {
namespace {

// One token's K or V of one kv head, as stored.
struct StoredVector {
  std::vector<int> codes;  // [head_dim]
  uint16_t scale;          // FP16
  float scale_value() const { return FloatFromFloat16(scale); }
};

StoredVector ReadStored(const PagedKvView& view, int64_t position, int64_t kv_head, bool is_value) {
  const int64_t block_size = view.block_size_tokens;
  const int64_t slot = position % block_size;
  const int64_t group = std::min<int64_t>(block_size, 16);
  const std::byte* head = view.base +
                          view.block_table[position / block_size] * view.block_stride_bytes +
                          static_cast<size_t>(kv_head) * view.head_stride_bytes;
  StoredVector stored;
  for (int64_t d = 0; d < view.head_dim; ++d) {
    const int64_t k_index =
        slot / group * group * view.head_dim + d / 4 * 4 * group + slot % group * 4 + d % 4;
    const int64_t v_index = slot / 4 * 4 * view.head_dim + 4 * d + slot % 4;
    const auto byte =
        is_value ? head[static_cast<int64_t>(view.v_offset_bytes) + v_index] : head[k_index];
    stored.codes.push_back(static_cast<int8_t>(byte));
  }
  std::memcpy(&stored.scale,
              head + 2 * view.v_offset_bytes + 2 * static_cast<size_t>(slot) +
                  (is_value ? 2 * static_cast<size_t>(block_size) : 0),
              sizeof stored.scale);
  return stored;
}

// K of one token of head_dim 8, stored as position 3 of a block of 16.
StoredVector Quantised(const KernelTable& table, const std::vector<float>& x) {
  Cache cache({.head_dim = 8, .dtype = KvDtype::kInt8}, 16);
  const std::vector<float> zeros(8);
  table.attention.store_kv(cache.view(), 3, 1, x.data(), zeros.data());
  return ReadStored(cache.view(), 3, 0, /*is_value=*/false);
}

TEST(AttentionInt8Test, CodesAndScaleAreThoseWorkedOutByHand) {
  for (const KernelTable* table : AllTables()) {
    // 127 / 127 = 1 exactly; halves are rounded to the even neighbour.
    const StoredVector exact = Quantised(*table, {127, -127, 0.5f, 1.5f, -2.5f, 3, -0.5f, 63.4f});
    EXPECT_EQ(exact.codes, (std::vector<int>{127, -127, 0, 2, -2, 3, 0, 63})) << table->name;
    EXPECT_EQ(exact.scale, 0x3c00);
    // 1000 / 127 = 7.874; its FP16 neighbour is 7.875, which codes are then counted in.
    const StoredVector rounded = Quantised(*table, {-1000, 500, 250, 3.9f, 3.95f, 0, 8, -8});
    EXPECT_EQ(rounded.scale_value(), 7.875f);
    EXPECT_EQ(rounded.codes, (std::vector<int>{-127, 63, 32, 0, 1, 0, 1, -1})) << table->name;
  }
}

TEST(AttentionInt8Test, ZerosAndWhatIsBelowTheSmallestScaleAreStoredAsZero) {
  const std::vector<int> zeros(8, 0);
  for (const KernelTable* table : AllTables()) {
    for (const float x : {0.0f, -0.0f, 1e-42f, 3.7e-6f}) {
      const StoredVector stored = Quantised(*table, std::vector<float>(8, x));
      EXPECT_EQ(stored.codes, zeros) << table->name << " " << x;
      EXPECT_EQ(stored.scale, 0) << table->name << " " << x;
    }
    // The smallest scale, 2^-24: codes go to the limit and no further, also where FP16 is coarse.
    EXPECT_EQ(Quantised(*table, {3.9e-6f, 0, 0, 0, 0, 0, 0, 0}).codes[0], 65) << table->name;
    const StoredVector coarse = Quantised(*table, {-1.1e-5f, 1e-6f, 0, 0, 0, 0, 0, 0});
    EXPECT_EQ(coarse.scale, 1) << table->name;
    EXPECT_EQ(coarse.codes[0], -127) << table->name;
    EXPECT_EQ(coarse.codes[1], 17) << table->name;
  }
}

TEST(AttentionInt8Test, WhatIsAboveTheLargestScaleSaturates) {
  for (const KernelTable* table : AllTables()) {
    const StoredVector stored =
        Quantised(*table, {3e38f, -3e38f, 65504, -131008, 0, 1, 4e6f, 9e6f});
    EXPECT_EQ(stored.scale, 0x7bff) << table->name;
    EXPECT_EQ(stored.codes, (std::vector<int>{127, -127, 1, -2, 0, 0, 61, 127})) << table->name;
  }
}

TEST(AttentionInt8Test, ATokenWithANaNOrAnInfinityIsStoredAsZerosWithANaNForItsScale) {
  const std::vector<int> zeros(8, 0);
  for (const KernelTable* table : AllTables()) {
    for (const float bad : {kNaN, -kNaN, kInfinity, -kInfinity}) {
      const StoredVector stored = Quantised(*table, {1, 2, 3, bad, 5, 6, 7, 8});
      EXPECT_EQ(stored.codes, zeros) << table->name << " " << bad;
      EXPECT_EQ(stored.scale, 0x7e00) << table->name << " " << bad;
    }
  }
}

// Magnitudes from 1e-8 to 1e8, tokens of zeros, and single channels that dwarf the others.
std::vector<float> WildFloats(size_t num_tokens, size_t width, std::mt19937& random) {
  std::vector<float> values = RandomFloats(num_tokens * width, random);
  for (size_t token = 0; token < num_tokens; ++token) {
    const auto exponent = static_cast<float>(static_cast<int>(random() % 17) - 8);
    const float factor = token % 9 == 4 ? 0.0f : std::pow(10.0f, exponent);
    for (size_t i = 0; i < width; ++i) values[token * width + i] *= factor;
    if (token % 3 == 0) values[token * width + random() % width] *= 200.0f;
  }
  return values;
}

TEST(AttentionInt8Test, MinusOneHundredAndTwentyEightIsNeverStored) {
  std::mt19937 random(17);
  for (const KernelTable* table : AllTables()) {
    const Shape shape{.head_dim = 40, .block_size_tokens = 8, .dtype = KvDtype::kInt8};
    Cache cache(shape, 500);
    const std::vector<float> k = WildFloats(500, 40, random);
    const std::vector<float> v = WildFloats(500, 40, random);
    cache.Fill(table->attention, k, v);
    int largest = 0;
    for (int64_t position = 0; position < 500; ++position) {
      for (const bool is_value : {false, true}) {
        for (const int code : ReadStored(cache.view(), position, 0, is_value).codes) {
          ASSERT_GE(code, -127) << table->name << " position " << position;
          largest = std::max(largest, std::abs(code));
        }
      }
    }
    EXPECT_EQ(largest, 127);
  }
}

// Every element is within half a step of its value, for scales that FP16 holds well.
TEST(AttentionInt8Test, StoredCodesTimesTheirScaleAreWithinHalfAStep) {
  std::mt19937 random(18);
  const Shape shape{.num_kv_heads = 2, .head_dim = 64, .dtype = KvDtype::kInt8};
  Cache cache(shape, 50);
  const std::vector<float> k = RandomFloats(50 * 128, random, 3.0f);
  const std::vector<float> v = RandomFloats(50 * 128, random, 0.1f);
  cache.Fill(Reference(), k, v);
  for (int64_t position = 0; position < 50; ++position) {
    for (int64_t head = 0; head < 2; ++head) {
      for (const bool is_value : {false, true}) {
        const StoredVector stored = ReadStored(cache.view(), position, head, is_value);
        const float* x = (is_value ? v : k).data() + position * 128 + head * 64;
        for (size_t d = 0; d < 64; ++d) {
          ASSERT_NEAR(static_cast<float>(stored.codes[d]) * stored.scale_value(), x[d],
                      0.501f * stored.scale_value());
        }
      }
    }
  }
}

// Case T3: neither what a block held before, nor the order in which its tokens come, leaves a
// trace.
TEST(AttentionInt8Test, ABlockThatHeldLargeValuesStoresSmallOnesAsAFreshBlockDoes) {
  std::mt19937 random(19);
  for (const KernelTable* table : AllTables()) {
    for (const int32_t block_size : {8, 16, 64}) {
      const Shape shape{2, 1, 40, block_size, KvDtype::kInt8, false};
      std::vector<float> k = RandomFloats(64 * 80, random);
      std::vector<float> v = RandomFloats(64 * 80, random);
      for (std::vector<float>* values : {&k, &v}) {
        for (float& x : *values) x *= 0.001f;
      }
      Cache fresh(shape, 64);
      fresh.Fill(table->attention, k, v);
      Cache reused(shape, 64);
      reused.Fill(table->attention, RandomFloats(64 * 80, random, 1000.0f),
                  RandomFloats(64 * 80, random, 1000.0f));
      ASSERT_NE(reused.Bytes(), fresh.Bytes());
      // The last token first: a token's bytes are its own.
      for (int64_t position = 63; position >= 0; --position) {
        table->attention.store_kv(reused.view(), position, 2,
                                  &k[static_cast<size_t>(position) * 80],
                                  &v[static_cast<size_t>(position) * 80]);
      }
      EXPECT_EQ(reused.Bytes(), fresh.Bytes()) << table->name << " block size " << block_size;
    }
  }
}

TEST(AttentionInt8Test, WildValuesAndGarbageInMaskedSlotsHaveTheSameBitsOnEveryTable) {
  std::mt19937 random(20);
  for (const int32_t block_size : {8, 16, 32, 256}) {
    for (const int32_t head_dim : {8, 64, 88, 256}) {
      for (const int64_t last : {0, 5, 40, 299}) {
        for (const int64_t num_rows : {int64_t{1}, std::min<int64_t>(last + 1, 16)}) {
          const Shape shape{1, 3, head_dim, block_size, KvDtype::kInt8, true};
          Problem problem(shape, last, num_rows);
          const auto width = static_cast<size_t>(head_dim);
          problem.k = WildFloats(static_cast<size_t>(last + 1), width, random);
          problem.v = WildFloats(static_cast<size_t>(last + 1), width, random);
          problem.cache.Fill(Reference(), problem.k, problem.v);
          const std::vector<float> expected = problem.Run(Reference(), 16);
          ASSERT_TRUE(AllFinite(expected));
          for (const KernelTable* table : AllTables()) {
            problem.cache.Scramble(static_cast<uint32_t>(random()));
            problem.cache.Fill(Reference(), problem.k, problem.v);
            ASSERT_TRUE(SameBits(problem.Run(table->attention, 16), expected))
                << table->name << " " << Name(shape) << " last " << last << " rows " << num_rows;
          }
        }
      }
    }
  }
}

TEST(AttentionInt8Test, AValueThatIsNotFiniteMakesTheRowNaN) {
  for (const KernelTable* table : AllTables()) {
    for (const float bad : {kNaN, kInfinity}) {
      Problem problem({1, 2, 64, 16, KvDtype::kInt8, true}, 40, 1);
      const std::vector<float> k(64, 0.0f);
      std::vector<float> v(64, 1.0f);
      v[7] = bad;
      table->attention.store_kv(problem.cache.view(), 12, 1, k.data(), v.data());
      const std::vector<float> out = problem.Run(table->attention, 1);
      EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](float x) { return std::isnan(x); }))
          << table->name;
    }
  }
}

TEST(AttentionInt8Test, AQueryThatIsNotFiniteMakesItsRowNaNAndNoOther) {
  for (const KernelTable* table : AllTables()) {
    Problem problem({1, 2, 64, 16, KvDtype::kInt8, true}, 40, 2);
    const std::vector<float> before = problem.Run(table->attention, 16);
    problem.q[5] = kInfinity;  // head 0 of row 0
    const std::vector<float> after = problem.Run(table->attention, 16);
    EXPECT_TRUE(std::all_of(after.begin(), after.begin() + 64, [](float x) {
      return std::isnan(x);
    })) << table->name;
    EXPECT_TRUE(SameBits({before.begin() + 64, before.end()}, {after.begin() + 64, after.end()}))
        << table->name;
  }
}

// Every score is then 0 and every weight 1: the mean of V, up to the steps of its codes.
TEST(AttentionInt8Test, AZeroQueryWeighsAllVisibleValuesAlike) {
  for (const KernelTable* table : AllTables()) {
    Problem problem({1, 1, 64, 16, KvDtype::kInt8, true}, 39, 1);
    std::fill(problem.q.begin(), problem.q.end(), 0.0f);
    const std::vector<float> out = problem.Run(table->attention, 1);
    const std::vector<double> mean = Oracle(problem, 0, 0);
    for (size_t d = 0; d < 64; ++d) EXPECT_NEAR(out[d], mean[d], 0.01) << table->name;
  }
}

// Over equal values of one magnitude no rounding of a tile's weights is left to see: all are 127.
TEST(AttentionInt8Test, EqualValuesComeOutAsTheyAreStored) {
  for (const KernelTable* table : AllTables()) {
    Problem problem({1, 1, 64, 16, KvDtype::kInt8, true}, 511, 1);
    std::fill(problem.v.begin(), problem.v.end(), 1.0f);
    std::fill(problem.q.begin(), problem.q.end(), 0.0f);
    problem.cache.Fill(table->attention, problem.k, problem.v);
    const float expected = 127.0f * ReadStored(problem.cache.view(), 0, 0, true).scale_value();
    for (const float x : problem.Run(table->attention, 1)) {
      EXPECT_NEAR(x, expected, 1e-6f) << table->name;
    }
  }
}

}  // namespace
}  // namespace octavo::kernels
