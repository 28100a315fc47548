#include "kernels/row_ops.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"

namespace octavo::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kSizes[] = {1, 2, 7, 8, 15, 16, 17, 31, 33, 64, 100, 576, 1536, 1543};

const RowOpKernels& Reference() { return FindKernels(Isa::kReference)->rows; }

// Every other table that this machine can run.
std::vector<const KernelTable*> Twins() {
  std::vector<const KernelTable*> twins;
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kNeon}) {
    if (const KernelTable* table = FindKernels(isa)) twins.push_back(table);
  }
  return twins;
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

enum class Values { kOrdinary, kWide, kSpecial };

// Ordinary: about normal(0, 3). Wide: every exponent. Special: also NaN, infinities, zeros,
// subnormals and huge values.
std::vector<float> RandomRow(int64_t n, Values values, std::mt19937& random) {
  constexpr float kSpecials[] = {kNaN,    kInfinity, -kInfinity, 0.0f,   -0.0f, 1e-42f,
                                 -3e-40f, 3e38f,     -3e38f,     1e-20f, 88.0f, -87.5f};
  std::normal_distribution<float> normal(0.0f, 3.0f);
  std::uniform_int_distribution<int> one_in_eight(0, 7);
  std::uniform_int_distribution<int> special(0, static_cast<int>(std::size(kSpecials)) - 1);
  std::vector<float> row(static_cast<size_t>(n));
  for (float& x : row) {
    x = normal(random);
    if (values == Values::kWide) {
      const uint32_t bits = random() & 0xbfffffffu;  // below 2, either sign, subnormals included
      x = std::bit_cast<float>(bits);
    } else if (values == Values::kSpecial && one_in_eight(random) == 0) {
      x = kSpecials[special(random)];
    }
  }
  return row;
}

// Runs `operation(kernels, row, other)` -> vector on the reference and on each twin, over sizes and
// kinds of values.
template <class Operation>
void ExpectTwinsEqualReference(Operation operation) {
  std::mt19937 random(20240601);
  for (const int64_t n : kSizes) {
    for (const Values values : {Values::kOrdinary, Values::kWide, Values::kSpecial}) {
      const std::vector<float> x = RandomRow(n, values, random);
      const std::vector<float> y = RandomRow(n, values, random);
      const std::vector<float> expected = operation(Reference(), x, y);
      for (const KernelTable* twin : Twins()) {
        SCOPED_TRACE(std::string(twin->name) + " n=" + std::to_string(n) +
                     " values=" + std::to_string(static_cast<int>(values)));
        ASSERT_TRUE(SameBits(operation(twin->rows, x, y), expected));
      }
    }
  }
}

TEST(RowOpsTest, RmsNormOfEveryTwinEqualsTheReference) {
  ExpectTwinsEqualReference(
      [](const RowOpKernels& rows, std::vector<float> x, const std::vector<float>& y) {
        rows.rms_norm(x.data(), y.data(), std::ssize(x), 1e-5f, x.data());  // in place
        return x;
      });
}

TEST(RowOpsTest, AddOfEveryTwinEqualsTheReference) {
  ExpectTwinsEqualReference(
      [](const RowOpKernels& rows, std::vector<float> x, const std::vector<float>& y) {
        rows.add(x.data(), y.data(), std::ssize(x));
        return x;
      });
}

TEST(RowOpsTest, SiluMulOfEveryTwinEqualsTheReference) {
  ExpectTwinsEqualReference(
      [](const RowOpKernels& rows, std::vector<float> x, const std::vector<float>& y) {
        rows.silu_mul(x.data(), y.data(), std::ssize(x), x.data());  // in place
        return x;
      });
}

TEST(RowOpsTest, ArgmaxOfEveryTwinEqualsTheReference) {
  ExpectTwinsEqualReference(
      [](const RowOpKernels& rows, const std::vector<float>& x, const std::vector<float>&) {
        return std::vector<float>{static_cast<float>(rows.argmax_finite(x.data(), std::ssize(x)))};
      });
}

TEST(RowOpsTest, LogSumExpOfEveryTwinEqualsTheReference) {
  ExpectTwinsEqualReference([](const RowOpKernels& rows, std::vector<float> x,
                               const std::vector<float>&) -> std::vector<float> {
    for (float& value : x) {
      if (!(value < kInfinity)) value = -kInfinity;
    }
    const int64_t best = rows.argmax_finite(x.data(), std::ssize(x));
    if (best < 0) return {};
    return {rows.log_sum_exp(x.data(), std::ssize(x), x[static_cast<size_t>(best)])};
  });
}

struct RopeShape {
  int64_t num_heads;
  int64_t head_dim;
  int64_t rot_dim;
};

TEST(RowOpsTest, RopeOfEveryTwinEqualsTheReferenceInBothLayouts) {
  std::mt19937 random(7);
  for (const RopeShape& shape : {RopeShape{9, 64, 64},
                                 {3, 64, 32},
                                 {2, 80, 20},
                                 {1, 96, 96},
                                 {5, 128, 128},
                                 {2, 24, 6},
                                 {1, 8, 2},
                                 {2, 40, 34}}) {
    for (const RopeLayout layout : {RopeLayout::kNorm, RopeLayout::kNeox}) {
      for (const Values values : {Values::kOrdinary, Values::kWide, Values::kSpecial}) {
        const auto row = RandomRow(shape.num_heads * shape.head_dim, values, random);
        const auto cos = RandomRow(shape.rot_dim / 2, values, random);
        const auto sin = RandomRow(shape.rot_dim / 2, values, random);
        const auto rotate = [&](const RowOpKernels& rows) {
          std::vector<float> result = row;
          rows.rope(result.data(), shape.num_heads, shape.head_dim, shape.rot_dim, layout,
                    cos.data(), sin.data());
          return result;
        };
        const std::vector<float> expected = rotate(Reference());
        for (const KernelTable* twin : Twins()) {
          ASSERT_TRUE(SameBits(rotate(twin->rows), expected))
              << twin->name << " rot_dim " << shape.rot_dim;
        }
      }
    }
  }
}

TEST(RowOpsTest, RmsNormDividesByTheRootOfTheMeanSquare) {
  const std::vector<float> x = {3.0f, -4.0f, 0.0f, 0.0f};
  const std::vector<float> weight = {1.0f, 2.0f, 3.0f, 4.0f};
  std::vector<float> y(4);
  Reference().rms_norm(x.data(), weight.data(), 4, 0.0f, y.data());

  EXPECT_EQ(y, (std::vector<float>{1.2f, -3.2f, 0.0f, 0.0f}));  // the root is 2.5
}

TEST(RowOpsTest, SiluMulMatchesDoublePrecision) {
  std::mt19937 random(11);
  const std::vector<float> gate = RandomRow(5000, Values::kOrdinary, random);
  const std::vector<float> up = RandomRow(5000, Values::kOrdinary, random);
  std::vector<float> out(gate.size());
  Reference().silu_mul(gate.data(), up.data(), std::ssize(gate), out.data());

  for (size_t i = 0; i < gate.size(); ++i) {
    const double g = gate[i];
    const double exact = g / (1.0 + std::exp(-g)) * up[i];
    ASSERT_NEAR(out[i], exact, 5e-7 * std::fabs(exact)) << g;
  }
}

TEST(RowOpsTest, RopeRotatesAdjacentOrHalfwayPairsAndLeavesTheRest) {
  const std::vector<float> cos = {0.0f, 1.0f};
  const std::vector<float> sin = {1.0f, 0.0f};
  std::vector<float> norm = {1, 2, 3, 4, 5, 6};
  std::vector<float> neox = norm;
  Reference().rope(norm.data(), 1, 6, 4, RopeLayout::kNorm, cos.data(), sin.data());
  Reference().rope(neox.data(), 1, 6, 4, RopeLayout::kNeox, cos.data(), sin.data());

  EXPECT_EQ(norm, (std::vector<float>{-2, 1, 3, 4, 5, 6}));  // (1, 2) by a quarter turn
  EXPECT_EQ(neox, (std::vector<float>{-3, 2, 1, 4, 5, 6}));  // (1, 3) by a quarter turn
}

// The cases below hold for the reference and for every twin.
std::vector<const KernelTable*> AllTables() {
  std::vector<const KernelTable*> tables = Twins();
  tables.push_back(FindKernels(Isa::kReference));
  return tables;
}

TEST(RowOpsTest, ArgmaxTakesTheLowestOfEqualElementsWhereverTheyLie) {
  for (const KernelTable* table : AllTables()) {
    for (const int64_t n : {1, 5, 16, 40, 101}) {
      for (int64_t first = 0; first < n; ++first) {
        std::vector<float> x(static_cast<size_t>(n), -1.0f);
        for (int64_t i = first; i < n; i += 3) x[static_cast<size_t>(i)] = 2.5f;
        ASSERT_EQ(table->rows.argmax_finite(x.data(), n), first) << table->name << " n=" << n;
      }
    }
    const std::vector<float> zeros = {-1.0f, -0.0f, 0.0f};
    EXPECT_EQ(table->rows.argmax_finite(zeros.data(), 3), 1) << table->name;
  }
}

TEST(RowOpsTest, ArgmaxRefusesARowThatIsNotFinite) {
  for (const KernelTable* table : AllTables()) {
    for (const int64_t n : {1, 5, 16, 40, 101}) {
      std::vector<float> none(static_cast<size_t>(n), -kInfinity);
      EXPECT_EQ(table->rows.argmax_finite(none.data(), n), -1) << table->name;
      for (const float bad : {kNaN, kInfinity}) {
        for (int64_t at = 0; at < n; ++at) {
          std::vector<float> x(static_cast<size_t>(n), 1.0f);
          x[static_cast<size_t>(at)] = bad;
          ASSERT_EQ(table->rows.argmax_finite(x.data(), n), -1) << table->name << " at " << at;
        }
      }
    }
  }
}

TEST(RowOpsTest, LogSumExpMatchesDoublePrecision) {
  std::mt19937 random(5);
  for (const KernelTable* table : AllTables()) {
    std::vector<float> x = RandomRow(49152, Values::kOrdinary, random);
    const int64_t best = table->rows.argmax_finite(x.data(), std::ssize(x));
    const float max = x[static_cast<size_t>(best)];
    double sum = 0.0;
    for (const float value : x) sum += std::exp(static_cast<double>(value) - max);
    EXPECT_NEAR(table->rows.log_sum_exp(x.data(), std::ssize(x), max), std::log(sum) + max, 4e-6);
  }
}

// Beside a term of 1, each of these is near half a unit in the last place.
TEST(RowOpsTest, LogSumExpKeepsALongTailOfSmallTerms) {
  for (const KernelTable* table : AllTables()) {
    std::vector<float> x(49152, -16.0f);
    x[3] = 0.0f;
    const double sum = 1.0 + 49151 * std::exp(-16.0);
    EXPECT_NEAR(table->rows.log_sum_exp(x.data(), std::ssize(x), 0.0f), std::log(sum), 1e-7);
  }
}

}  // namespace
}  // namespace octavo::kernels
