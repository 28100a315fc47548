#include "kernels/matmul.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "base/cpu_features.h"
#include "gtest/gtest.h"
#include "kernels/kernel_sets.h"
#include "quant/decode.h"
#include "quant/random_matrix.h"

namespace octavo::kernels {
namespace {

using quant::MatrixShape;
using quant::RandomMatrix;
using quant::WeightKind;
using tensor::DType;

constexpr float kUntouched = -12345.0f;

struct Twin {
  std::string name;
  MatMulKernels kernels;
};

// The vector kernels that this machine can run.
std::vector<Twin> Twins() {
  std::vector<Twin> twins;
#if defined(__x86_64__)
  const base::CpuFeatures cpu = base::DetectCpuFeatures();
  if (cpu.avx2) twins.push_back({"avx2", Avx2MatMul()});
  if (cpu.avx512_vnni) twins.push_back({"avx512", Avx512MatMul()});
#else
  twins.push_back({"neon", NeonMatMul()});
#endif
  return twins;
}

// Equal bits, or both NaN.
bool Same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

// Rows of activations, quantised by the reference.
class Activations {
 public:
  Activations(int64_t num_rows, int64_t num_inputs, uint32_t seed)
      : num_inputs_(num_inputs), values_(static_cast<size_t>(num_rows * num_inputs)) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.0f, 1.0f);
    for (float& value : values_) value = normal(random);
    Quantize(num_rows);
  }
  Activations(int64_t num_inputs, std::vector<float> values)
      : num_inputs_(num_inputs), values_(std::move(values)) {
    Quantize(static_cast<int64_t>(values_.size()) / num_inputs);
  }

  const float* values() const { return values_.data(); }
  QuantizedRows& quantized() { return quantized_; }
  QuantizedRows16& quantized16() { return quantized16_; }

  // Storage for `num_rows` quantised rows, filled by `kernels`.
  void QuantizeWith(const MatMulKernels& kernels, int64_t num_rows) {
    for (int64_t row = 0; row < num_rows; ++row) {
      kernels.quantize_row(values_.data() + row * num_inputs_, 0, num_inputs_, row, quantized_);
      kernels.quantize_row16(values_.data() + row * num_inputs_, row, quantized16_);
    }
  }

  const std::vector<int8_t>& codes() const { return codes_; }
  const std::vector<float>& scales() const { return scales_; }
  const std::vector<float>& scaled_sums() const { return scaled_sums_; }
  const std::vector<int16_t>& half_sums() const { return half_sums_; }
  const std::vector<int16_t>& codes16() const { return codes16_; }
  const std::vector<uint8_t>& bytes16() const { return bytes16_; }
  const std::vector<float>& scales16() const { return scales16_; }
  const std::vector<float>& half_sums16() const { return half_sums16_; }

 private:
  void Quantize(int64_t num_rows) {
    codes_.resize(values_.size());
    scales_.resize(values_.size() / 32);
    scaled_sums_.resize(values_.size() / 32);
    half_sums_.resize(values_.size() / 16);
    quantized_ = {codes_.data(), scales_.data(), scaled_sums_.data(), half_sums_.data(),
                  num_inputs_};
    codes16_.resize(values_.size());
    bytes16_.resize(2 * values_.size());
    scales16_.resize(static_cast<size_t>(num_rows));
    half_sums16_.resize(values_.size() / 16);
    quantized16_ = {codes16_.data(), bytes16_.data(), scales16_.data(), half_sums16_.data(),
                    num_inputs_};
    QuantizeWith(ReferenceMatMul(), num_rows);
  }

  int64_t num_inputs_;
  std::vector<float> values_;
  std::vector<int8_t> codes_;
  std::vector<float> scales_;
  std::vector<float> scaled_sums_;
  std::vector<int16_t> half_sums_;
  QuantizedRows quantized_;
  std::vector<int16_t> codes16_;
  std::vector<uint8_t> bytes16_;
  std::vector<float> scales16_;
  std::vector<float> half_sums16_;
  QuantizedRows16 quantized16_;
};

constexpr std::pair<Products, const char*> kForms[] = {
    {Products::kFloat32, "float32"}, {Products::kInt8, "int8"}, {Products::kInt16, "int16"}};

struct Product {
  const quant::PackedMatrixView& w;
  Activations& x;
  int64_t num_rows;
  PanelRange range;
  int64_t out_stride;
};

std::vector<float> Multiply(const MatMulKernels& kernels, const Product& p, Products form) {
  std::vector<float> out(static_cast<size_t>(p.num_rows * p.out_stride), kUntouched);
  if (form == Products::kInt8) {
    kernels.int8(p.w, p.x.quantized(), p.num_rows, p.range, out.data(), p.out_stride);
  } else if (form == Products::kInt16) {
    kernels.int16(p.w, p.x.quantized16(), p.num_rows, p.range, out.data(), p.out_stride);
  } else {
    kernels.float32(p.w, p.x.values(), p.w.num_inputs, p.num_rows, p.range, out.data(),
                    p.out_stride);
  }
  return out;
}

void ExpectSame(const std::vector<float>& expected, const std::vector<float>& actual) {
  ASSERT_EQ(expected.size(), actual.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_TRUE(Same(expected[i], actual[i]))
        << "element " << i << ": " << expected[i] << " and " << actual[i];
  }
}

void ExpectTwinsEqualReference(const Product& p) {
  for (const auto& [form, form_name] : kForms) {
    if (form != Products::kFloat32 && !p.w.is_quantized()) continue;
    const std::vector<float> expected = Multiply(ReferenceMatMul(), p, form);
    for (const Twin& twin : Twins()) {
      SCOPED_TRACE(testing::Message() << twin.name << " " << form_name << ", rows " << p.num_rows
                                      << ", " << p.w.num_outputs << " x " << p.w.num_inputs);
      ExpectSame(expected, Multiply(twin.kernels, p, form));
    }
  }
}

class MatMulTest : public testing::TestWithParam<DType> {
 protected:
  int64_t block() const { return tensor::Traits(GetParam()).block_elements; }
};

INSTANTIATE_TEST_SUITE_P(Formats, MatMulTest, testing::ValuesIn(quant::kAllFormats),
                         [](const testing::TestParamInfo<DType>& format) {
                           return std::string(tensor::Traits(format.param).name);
                         });

TEST_P(MatMulTest, TwinsEqualTheReferenceForEveryNumberOfRows) {
  const uint32_t seed = 7001;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const int64_t num_inputs = std::max<int64_t>(block(), 96);
  const RandomMatrix matrix(GetParam(), {40, num_inputs}, WeightKind::kUsual, seed);
  for (int64_t rows = 1; rows <= 25; ++rows) {
    Activations x(rows, num_inputs, seed + static_cast<uint32_t>(rows));
    ExpectTwinsEqualReference({matrix.view(), x, rows, {0, 3}, 40});
  }
}

TEST_P(MatMulTest, TwinsEqualTheReferenceForManyRowsAndInputs) {
  const uint32_t seed = 7004;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  // More rows than are unpacked together, and more inputs than one expanded run holds; then more
  // than one block of rows.
  const RandomMatrix wide(GetParam(), {35, 2304}, WeightKind::kUsual, seed);
  for (const int64_t rows : {31, 32, 33, 47, 48, 49, 121}) {
    Activations x(rows, 2304, seed);
    ExpectTwinsEqualReference({wide.view(), x, rows, {0, 3}, 35});
  }
}

TEST_P(MatMulTest, TwinsEqualTheReferenceOnOddShapes) {
  const uint32_t seed = 7002;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  for (const int64_t num_outputs : {1, 15, 16, 17, 33, 100}) {
    for (const int64_t blocks : {1, 3, 5}) {
      const int64_t num_inputs = blocks * std::max<int64_t>(block(), 32);
      const RandomMatrix matrix(GetParam(), {num_outputs, num_inputs}, WeightKind::kUsual, seed);
      for (const int64_t rows : {1, 2, 7}) {
        Activations x(rows, num_inputs, seed);
        const PanelRange all = {0, matrix.view().num_panels()};
        ExpectTwinsEqualReference({matrix.view(), x, rows, all, num_outputs + 3});
      }
    }
  }
}

TEST_P(MatMulTest, TwinsEqualTheReferenceOnExtremeAndArbitraryWeights) {
  const uint32_t seed = 7003;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const int64_t num_inputs = 2 * std::max<int64_t>(block(), 32);
  for (const WeightKind kind : {WeightKind::kExtremes, WeightKind::kAnyBits}) {
    const RandomMatrix matrix(GetParam(), {48, num_inputs}, kind, seed);
    // Codes of +-127 and +-32767 reach the largest sums.
    std::vector<float> values(static_cast<size_t>(9 * num_inputs));
    std::mt19937 random(seed);
    for (float& value : values) value = random() % 2 == 0 ? 1.0f : -1.0f;
    for (int64_t k = 0; k < 2 * num_inputs; ++k) {
      values[static_cast<size_t>(k)] = k < num_inputs ? 1.0f : -1.0f;
    }
    Activations x(num_inputs, values);
    for (const int64_t rows : {1, 2, 3, 9}) {
      ExpectTwinsEqualReference({matrix.view(), x, rows, {0, 3}, 48});
    }
  }
}

TEST_P(MatMulTest, TwinsEqualTheReferenceOnInfiniteAndMissingActivations) {
  const int64_t num_inputs = 3 * std::max<int64_t>(block(), 32);
  const RandomMatrix matrix(GetParam(), {20, num_inputs}, WeightKind::kUsual, 5);
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> values(static_cast<size_t>(4 * num_inputs), 0.5f);
  values[3] = nan;
  values[static_cast<size_t>(num_inputs + 40)] = -infinity;
  for (int64_t k = 2 * num_inputs; k < 3 * num_inputs; ++k) values[static_cast<size_t>(k)] = -0.0f;
  values[static_cast<size_t>(3 * num_inputs + 1)] = 1e-40f;
  Activations x(num_inputs, values);

  ExpectTwinsEqualReference({matrix.view(), x, 4, {0, 2}, 20});
}

TEST_P(MatMulTest, WritesTheOutputsOfItsPanelsAndNoOther) {
  const int64_t num_inputs = std::max<int64_t>(block(), 32);
  const RandomMatrix matrix(GetParam(), {70, num_inputs}, WeightKind::kUsual, 6);
  Activations x(3, num_inputs, 6);
  const Product part = {matrix.view(), x, 3, {1, 4}, 80};
  for (const Twin& twin : Twins()) {
    const std::vector<float> out = Multiply(twin.kernels, part, Products::kFloat32);
    for (int64_t i = 0; i < 3 * 80; ++i) {
      const bool inside = i % 80 >= 16 && i % 80 < 64;
      EXPECT_EQ(out[static_cast<size_t>(i)] == kUntouched, !inside) << twin.name << " " << i;
    }
  }
  ExpectTwinsEqualReference(part);
  ExpectTwinsEqualReference({matrix.view(), x, 3, {3, 5}, 80});
}

TEST_P(MatMulTest, ReferenceStaysNearADoublePrecisionProduct) {
  const int64_t num_inputs = 512;
  const RandomMatrix matrix(GetParam(), {21, num_inputs}, WeightKind::kUsual, 8);
  Activations x(2, num_inputs, 9);
  const Product p = {matrix.view(), x, 2, {0, 2}, 21};
  const std::vector<float> exact_inputs = Multiply(ReferenceMatMul(), p, Products::kFloat32);
  std::vector<float> int8_inputs, int16_inputs;
  if (p.w.is_quantized()) {
    int8_inputs = Multiply(ReferenceMatMul(), p, Products::kInt8);
    int16_inputs = Multiply(ReferenceMatMul(), p, Products::kInt16);
  }
  std::vector<float> weights(static_cast<size_t>(num_inputs));
  for (int64_t o = 0; o < 21; ++o) {
    quant::DecodeRow(GetParam(), matrix.stored_row(o), weights.size(), weights.data());
    for (int64_t row = 0; row < 2; ++row) {
      double sum = 0, magnitude = 0, quantised = 0;
      for (int64_t k = 0; k < num_inputs; ++k) {
        const size_t i = static_cast<size_t>(row * num_inputs + k);
        const double w = weights[static_cast<size_t>(k)];
        sum += w * x.values()[i];
        magnitude += std::abs(w * x.values()[i]);
        quantised += w * x.codes()[i] * x.scales()[i / 32];
      }
      const size_t at = static_cast<size_t>(row * 21 + o);
      // A chain of n roundings errs by at most n units of 2^-24 of the sum of magnitudes.
      EXPECT_NEAR(exact_inputs[at], sum, magnitude * 512 * 0x1p-24);
      if (!p.w.is_quantized()) continue;
      // An activation is off by at most half a code: the largest over 65,534. For normal values of
      // unit variance it is below 4.5, and the magnitudes' mean above 0.7.
      EXPECT_NEAR(int16_inputs[at], sum, magnitude * (64 * 0x1p-24 + 4.5 / 0.7 / 65534));
      EXPECT_NEAR(int8_inputs[at], quantised, magnitude * 64 * 0x1p-24 + 1e-4 * magnitude);
    }
  }
}

TEST(QuantizeRowTest, TwinsEqualTheReferenceOnArbitraryBits) {
  const uint32_t seed = 31;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const int64_t num_inputs = 32 * 50;
  std::vector<float> values(static_cast<size_t>(20 * num_inputs));
  for (size_t i = 0; i < values.size(); ++i) {
    // Groups of a common magnitude, and groups of arbitrary bits.
    const bool arbitrary = i / 32 % 4 == 0;
    const float usual = std::ldexp(std::uniform_real_distribution<float>(-1, 1)(random),
                                   static_cast<int>(i / 32 % 251) - 125);
    values[i] = arbitrary ? std::bit_cast<float>(static_cast<uint32_t>(random())) : usual;
  }
  const Activations expected(num_inputs, values);
  for (const Twin& twin : Twins()) {
    SCOPED_TRACE(twin.name);
    Activations actual(num_inputs, values);
    actual.QuantizeWith(twin.kernels, 20);
    EXPECT_EQ(expected.codes(), actual.codes());
    EXPECT_EQ(expected.half_sums(), actual.half_sums());
    ExpectSame(expected.scales(), actual.scales());
    ExpectSame(expected.scaled_sums(), actual.scaled_sums());
    EXPECT_EQ(expected.codes16(), actual.codes16());
    EXPECT_EQ(expected.bytes16(), actual.bytes16());
    ExpectSame(expected.scales16(), actual.scales16());
    EXPECT_EQ(expected.half_sums16(), actual.half_sums16());
  }
}

TEST(QuantizeRowTest, RoundsHalvesToEvenAndSumsEachHalf) {
  // amax 127 makes the scale 1: 0.5 rounds to 0, 1.5 to 2, -2.5 to -2.
  std::vector<float> values(32, 0.0f);
  values[0] = 127.0f;
  values[1] = 0.5f;
  values[2] = 1.5f;
  values[16] = -2.5f;
  std::vector<Twin> all = Twins();
  all.push_back({"reference", ReferenceMatMul()});
  for (const Twin& twin : all) {
    Activations x(32, values);
    x.QuantizeWith(twin.kernels, 1);
    EXPECT_EQ(x.codes()[0], 127) << twin.name;
    EXPECT_EQ(x.codes()[1], 0) << twin.name;
    EXPECT_EQ(x.codes()[2], 2) << twin.name;
    EXPECT_EQ(x.codes()[16], -2) << twin.name;
    EXPECT_EQ(x.half_sums(), (std::vector<int16_t>{129, -2})) << twin.name;
    EXPECT_EQ(x.scales()[0], 1.0f) << twin.name;
    EXPECT_EQ(x.scaled_sums()[0], 127.0f) << twin.name;
  }
}

TEST(QuantizeRowTest, TinyGroupsBecomeZeroAndGroupsWithoutAFiniteMaximumNan) {
  std::vector<float> values(96, 0.0f);
  values[0] = 0x1p-101f;
  values[32] = 0x1p-100f;
  values[64] = std::numeric_limits<float>::infinity();
  std::vector<Twin> all = Twins();
  all.push_back({"reference", ReferenceMatMul()});
  for (const Twin& twin : all) {
    Activations x(96, values);
    x.QuantizeWith(twin.kernels, 1);
    EXPECT_EQ(x.scales()[0], 0.0f) << twin.name;
    EXPECT_EQ(x.codes()[0], 0) << twin.name;
    EXPECT_GT(x.scales()[1], 0.0f) << twin.name;
    EXPECT_EQ(x.codes()[32], 127) << twin.name;
    EXPECT_TRUE(std::isnan(x.scales()[2])) << twin.name;
    EXPECT_TRUE(std::isnan(x.scaled_sums()[2])) << twin.name;
    EXPECT_EQ(x.codes()[64], 0) << twin.name;
  }
}

TEST(QuantizeRow16Test, OneScaleServesTheRowAndQuadsLieEvenInputsFirst) {
  // amax 32767 makes the scale 1.
  std::vector<float> values(64, 0.0f);
  values[0] = 1.0f;
  values[1] = 2.0f;
  values[2] = 3.5f;
  values[3] = -4.0f;
  values[63] = -32767.0f;
  std::vector<Twin> all = Twins();
  all.push_back({"reference", ReferenceMatMul()});
  for (const Twin& twin : all) {
    Activations x(64, values);
    x.QuantizeWith(twin.kernels, 1);
    const std::vector<int16_t>& codes = x.codes16();
    EXPECT_EQ(std::vector<int16_t>(codes.begin(), codes.begin() + 4),
              (std::vector<int16_t>{1, 4, 2, -4}))
        << twin.name;
    EXPECT_EQ(codes[63], -32767) << twin.name;
    const std::vector<uint8_t>& bytes = x.bytes16();
    EXPECT_EQ(std::vector<uint8_t>(bytes.begin(), bytes.begin() + 8),
              (std::vector<uint8_t>{0, 0, 0, 0xff, 1, 2, 4, 0xfc}))
        << twin.name;
    EXPECT_EQ(bytes[123], 0x80) << twin.name;  // -32767 is -128 * 256 + 1
    EXPECT_EQ(bytes[127], 1) << twin.name;
    EXPECT_EQ(x.scales16(), std::vector<float>{1.0f}) << twin.name;
    EXPECT_EQ(x.half_sums16(), (std::vector<float>{3.0f, 0.0f, 0.0f, -32767.0f})) << twin.name;
  }
}

TEST(QuantizeRow16Test, ATinyRowBecomesZeroAndOneWithoutAFiniteMaximumNan) {
  std::vector<float> values(3 * 32, 0.0f);
  values[5] = 0x1p-101f;
  values[32] = 0x1p-100f;
  values[64] = std::numeric_limits<float>::infinity();
  std::vector<Twin> all = Twins();
  all.push_back({"reference", ReferenceMatMul()});
  for (const Twin& twin : all) {
    Activations x(32, values);
    x.QuantizeWith(twin.kernels, 3);
    EXPECT_EQ(x.scales16()[0], 0.0f) << twin.name;
    EXPECT_EQ(x.codes16()[5], 0) << twin.name;
    EXPECT_EQ(x.codes16()[32], 32767) << twin.name;
    EXPECT_TRUE(std::isnan(x.scales16()[2])) << twin.name;
    EXPECT_EQ(x.codes16()[64], 0) << twin.name;
  }
}

TEST(Int16ProductTest, ARowWithoutAFiniteMaximumGivesNanAndLeavesItsNeighboursAlone) {
  const RandomMatrix matrix(DType::kQ4_1, {16, 64}, WeightKind::kUsual, 5);
  std::vector<float> values(2 * 64, 0.5f);
  values[3] = std::numeric_limits<float>::quiet_NaN();
  Activations x(64, values);
  const std::vector<float> out =
      Multiply(ReferenceMatMul(), {matrix.view(), x, 2, {0, 1}, 16}, Products::kInt16);
  for (size_t o = 0; o < 16; ++o) {
    EXPECT_TRUE(std::isnan(out[o]));
    EXPECT_FALSE(std::isnan(out[16 + o]));
  }
}

}  // namespace
}  // namespace octavo::kernels
