// The matrix products on the shapes of SmolLM2-135M, one thread. Rates are per second of processor
// time. GB/s: packed weight bytes; GOP/s: two operations per multiply-accumulate. Weights come from
// a ring of matrices that exceeds the L2 cache, as in a model.

#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/cpu_features.h"
#include "kernels/kernel_sets.h"
#include "quant/random_matrix.h"

namespace octavo::kernels {
namespace {

using quant::MatrixShape;
using quant::PackedMatrixView;
using tensor::DType;

constexpr size_t kRingBytes = size_t{96} << 20;

struct CacheLine {
  alignas(64) std::byte bytes[64];
};

// Copies of one random packed matrix, one after another.
class MatrixRing {
 public:
  MatrixRing(DType dtype, MatrixShape shape)
      : first_(dtype, shape, quant::WeightKind::kUsual, 1), view_(first_.view()) {
    matrix_bytes_ = view_.panel_bytes * static_cast<size_t>(view_.num_panels());
    count_ = std::max<size_t>(kRingBytes / matrix_bytes_, 1);
    lines_.resize(count_ * matrix_bytes_ / 64);
    for (size_t i = 0; i < count_; ++i) {
      std::memcpy(&lines_[i * matrix_bytes_ / 64], view_.data, matrix_bytes_);
    }
  }

  size_t matrix_bytes() const { return matrix_bytes_; }
  const PackedMatrixView& Next() {
    view_.data = lines_[next_ * matrix_bytes_ / 64].bytes;
    next_ = (next_ + 1) % count_;
    return view_;
  }

 private:
  quant::RandomMatrix first_;
  PackedMatrixView view_;
  size_t matrix_bytes_;
  size_t count_;
  size_t next_ = 0;
  std::vector<CacheLine> lines_;
};

struct Rows {
  std::vector<float> values;
  std::vector<int8_t> codes;
  std::vector<float> scales;
  std::vector<float> scaled_sums;
  std::vector<int16_t> half_sums;
  QuantizedRows quantized;

  Rows(const MatMulKernels& kernels, int64_t num_rows, int64_t num_inputs)
      : values(static_cast<size_t>(num_rows * num_inputs)),
        codes(values.size()),
        scales(values.size() / 32),
        scaled_sums(values.size() / 32),
        half_sums(values.size() / 16) {
    std::mt19937 random(2);
    std::normal_distribution<float> normal;
    for (float& value : values) value = normal(random);
    quantized = {codes.data(), scales.data(), scaled_sums.data(), half_sums.data(), num_inputs};
    for (int64_t row = 0; row < num_rows; ++row) {
      kernels.quantize_row(values.data() + row * num_inputs, 0, num_inputs, row, quantized);
    }
  }
};

struct Case {
  MatMulKernels kernels;
  DType dtype;
  MatrixShape shape;
  int64_t num_rows;
  bool int8;
};

void RunProduct(benchmark::State& state, const Case& c) {
  MatrixRing ring(c.dtype, c.shape);
  Rows rows(c.kernels, c.num_rows, c.shape.num_inputs);
  std::vector<float> out(static_cast<size_t>(c.num_rows * c.shape.num_outputs));
  for (auto _ : state) {
    const PackedMatrixView& w = ring.Next();
    const PanelRange all = {0, w.num_panels()};
    if (c.int8) {
      c.kernels.int8(w, rows.quantized, c.num_rows, all, out.data(), c.shape.num_outputs);
    } else {
      c.kernels.float32(w, rows.values.data(), c.shape.num_inputs, c.num_rows, all, out.data(),
                        c.shape.num_outputs);
    }
    benchmark::ClobberMemory();
  }
  const double calls = static_cast<double>(state.iterations());
  const double macs = static_cast<double>(c.num_rows * c.shape.num_outputs * c.shape.num_inputs);
  state.counters["GB/s"] = benchmark::Counter(
      calls * static_cast<double>(ring.matrix_bytes()) * 1e-9, benchmark::Counter::kIsRate);
  state.counters["GOP/s"] = benchmark::Counter(calls * 2e-9 * macs, benchmark::Counter::kIsRate);
}

void RunPacking(benchmark::State& state, DType dtype, MatrixShape shape) {
  const quant::RandomMatrix matrix(dtype, shape, quant::WeightKind::kUsual, 1);
  const PackedMatrixView& view = matrix.view();
  std::vector<CacheLine> packed(view.panel_bytes * static_cast<size_t>(view.num_panels()) / 64);
  for (auto _ : state) {
    quant::PackPanels(dtype, shape.num_outputs, shape.num_inputs, matrix.stored_row(0),
                      packed[0].bytes, 0, view.num_panels());
    benchmark::ClobberMemory();
  }
  state.counters["GB/s"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * static_cast<double>(packed.size()) * 64e-9,
      benchmark::Counter::kIsRate);
}

void RunQuantize(benchmark::State& state, const MatMulKernels& kernels) {
  Rows rows(kernels, 64, 576);
  for (auto _ : state) {
    for (int64_t row = 0; row < 64; ++row) {
      kernels.quantize_row(rows.values.data() + row * 576, 0, 576, row, rows.quantized);
    }
    benchmark::ClobberMemory();
  }
  state.counters["Gelement/s"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * 64 * 576e-9, benchmark::Counter::kIsRate);
}

std::string ShapeName(MatrixShape shape) {
  return std::to_string(shape.num_outputs) + "x" + std::to_string(shape.num_inputs);
}

void RegisterTable(const std::string& isa, const MatMulKernels& kernels) {
  struct Matrix {
    DType dtype;
    MatrixShape shape;
  };
  std::vector<Matrix> matrices = {{DType::kQ4_1, {576, 576}},
                                  {DType::kQ4_1, {192, 576}},
                                  {DType::kQ4_1, {1536, 576}},
                                  {DType::kQ4_1, {576, 1536}},
                                  {DType::kQ8_0, {49152, 576}}};
  for (const DType dtype : quant::kAllFormats) matrices.push_back({dtype, {1024, 1024}});
  for (const bool int8 : {true, false}) {
    for (const Matrix& m : matrices) {
      const bool quantised =
          m.dtype != DType::kF32 && m.dtype != DType::kF16 && m.dtype != DType::kBF16;
      if (int8 && !quantised) continue;
      for (const int64_t rows : {1, 4, 16, 128, 512}) {
        const std::string name = isa + (int8 ? "/int8/" : "/float32/") +
                                 std::string(tensor::Traits(m.dtype).name) + "/" +
                                 ShapeName(m.shape) + "/rows:" + std::to_string(rows);
        const Case c = {kernels, m.dtype, m.shape, rows, int8};
        benchmark::RegisterBenchmark(name.c_str(),
                                     [c](benchmark::State& state) { RunProduct(state, c); });
      }
    }
  }
  benchmark::RegisterBenchmark((isa + "/quantize").c_str(),
                               [kernels](benchmark::State& state) { RunQuantize(state, kernels); });
}

[[maybe_unused]] const bool kRegistered = [] {
#if defined(__x86_64__)
  const base::CpuFeatures cpu = base::DetectCpuFeatures();
  if (cpu.avx512_vnni) RegisterTable("avx512", Avx512MatMul());
  if (cpu.avx2) RegisterTable("avx2", Avx2MatMul());
#else
  RegisterTable("neon", NeonMatMul());
#endif
  for (const DType dtype : quant::kAllFormats) {
    const std::string name = "pack/" + std::string(tensor::Traits(dtype).name);
    benchmark::RegisterBenchmark(name.c_str(), [dtype](benchmark::State& state) {
      RunPacking(state, dtype, {1536, 768});
    });
  }
  return true;
}();

}  // namespace
}  // namespace octavo::kernels
