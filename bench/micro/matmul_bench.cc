// The matrix products on the shapes of SmolLM2-135M, one thread. Rates are per second of processor
// time. GB/s: packed weight bytes; GOP/s: two operations per multiply-accumulate. Weights come from
// a ring of matrices that exceeds the L2 cache, as in a model.

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "base/aligned_memory.h"
#include "base/cpu_features.h"
#include "bench/product_inputs.h"
#include "kernels/kernel_sets.h"
#include "quant/random_matrix.h"

namespace octavo::kernels {
namespace {

using quant::MatrixShape;
using quant::PackedMatrixView;
using tensor::DType;

constexpr size_t kRingBytes = size_t{96} << 20;

struct Case {
  MatMulKernels kernels;
  DType dtype;
  MatrixShape shape;
  int64_t num_rows;
  std::string form;  // "int8", "int16" or "float32"
};

void RunProduct(benchmark::State& state, const Case& c) {
  const bench::MatrixRing ring(c.dtype, c.shape, kRingBytes);
  const bench::ActivationRows rows(c.kernels, c.num_rows, c.shape.num_inputs);
  std::vector<float> out(static_cast<size_t>(c.num_rows * c.shape.num_outputs));
  size_t next = 0;
  for (auto _ : state) {
    const PackedMatrixView w = ring.At(next++);
    const PanelRange all = {0, w.num_panels()};
    if (c.form == "int8") {
      c.kernels.int8(w, rows.int8(), c.num_rows, all, out.data(), c.shape.num_outputs);
    } else if (c.form == "int16") {
      c.kernels.int16(w, rows.int16(), c.num_rows, all, out.data(), c.shape.num_outputs);
    } else {
      c.kernels.float32(w, rows.values(), c.shape.num_inputs, c.num_rows, all, out.data(),
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
  const size_t bytes = view.panel_bytes * static_cast<size_t>(view.num_panels());
  base::AlignedBuffer packed = base::AlignedBuffer::Allocate(bytes);
  for (auto _ : state) {
    quant::PackPanels(dtype, shape.num_outputs, shape.num_inputs, matrix.stored_row(0),
                      packed.data(), 0, view.num_panels());
    benchmark::ClobberMemory();
  }
  state.counters["GB/s"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * static_cast<double>(bytes) * 1e-9,
      benchmark::Counter::kIsRate);
}

void RunQuantize(benchmark::State& state, const MatMulKernels& kernels, bool int8) {
  const bench::ActivationRows rows(kernels, 64, 576);
  for (auto _ : state) {
    for (int64_t row = 0; row < 64; ++row) {
      const float* x = rows.values() + row * 576;
      if (int8) {
        kernels.quantize_row(x, 0, 576, row, rows.int8());
      } else {
        kernels.quantize_row16(x, row, rows.int16());
      }
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
  for (const std::string form : {"int8", "int16", "float32"}) {
    for (const Matrix& m : matrices) {
      const bool quantised =
          m.dtype != DType::kF32 && m.dtype != DType::kF16 && m.dtype != DType::kBF16;
      if (form != "float32" && !quantised) continue;
      for (const int64_t rows : {1, 4, 16, 128, 512}) {
        const std::string name = isa + "/" + form + "/" +
                                 std::string(tensor::Traits(m.dtype).name) + "/" +
                                 ShapeName(m.shape) + "/rows:" + std::to_string(rows);
        const Case c = {kernels, m.dtype, m.shape, rows, form};
        benchmark::RegisterBenchmark(name.c_str(),
                                     [c](benchmark::State& state) { RunProduct(state, c); });
      }
    }
  }
  for (const bool int8 : {true, false}) {
    benchmark::RegisterBenchmark(
        (isa + "/quantize/" + (int8 ? "int8" : "int16")).c_str(),
        [kernels, int8](benchmark::State& state) { RunQuantize(state, kernels, int8); });
  }
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
