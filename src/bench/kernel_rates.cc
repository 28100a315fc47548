#include "bench/kernel_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "bench/attention_rates.h"
#include "bench/best_time.h"
#include "bench/product_inputs.h"
#include "bench/roofline.h"
#include "kernels/kernel_table.h"
#include "quant/random_matrix.h"

namespace octavo::bench {
namespace {

using quant::MatrixShape;
using quant::PackedMatrixView;
using tensor::DType;

struct Bounds {
  double bytes_per_s = 0;            // of as much memory as the weights take
  double int8_operations_per_s = 0;  // of the instruction set's probes
  double int16_operations_per_s = 0;
  double float32_operations_per_s = 0;
};

struct Matrix {
  DType dtype;
  MatrixShape shape;

  bool is_float() const { return tensor::Traits(dtype).block_elements == 1; }
};

// The default model's matrices, then every format in one shape.
std::vector<Matrix> Matrices() {
  std::vector<Matrix> matrices = {{DType::kQ4_1, {576, 576}},
                                  {DType::kQ4_1, {1536, 576}},
                                  {DType::kQ4_1, {576, 1536}},
                                  {DType::kQ8_0, {49152, 576}}};
  for (const DType dtype : quant::kAllFormats) matrices.push_back({dtype, {2048, 2048}});
  return matrices;
}

// What one figure is of.
struct Product {
  std::string_view form;  // "int8", "int16" or "float32"
  const Matrix& matrix;
  int64_t num_rows;
};

void Multiply(const kernels::MatMulKernels& matmul, const Product& product,
              const PackedMatrixView& w, const ActivationRows& rows, kernels::PanelRange range,
              float* out) {
  const MatrixShape& shape = product.matrix.shape;
  if (product.form == "int8") {
    matmul.int8(w, rows.int8(), product.num_rows, range, out, shape.num_outputs);
  } else if (product.form == "int16") {
    matmul.int16(w, rows.int16(), product.num_rows, range, out, shape.num_outputs);
  } else {
    matmul.float32(w, rows.values(), shape.num_inputs, product.num_rows, range, out,
                   shape.num_outputs);
  }
}

KernelRate Measure(const kernels::MatMulKernels& matmul, base::ThreadPool& pool,
                   const Product& product, const MatrixRing& ring, double seconds) {
  const MatrixShape& shape = product.matrix.shape;
  const ActivationRows rows(matmul, product.num_rows, shape.num_inputs);
  std::vector<float> out(static_cast<size_t>(product.num_rows * shape.num_outputs));
  const int64_t num_panels = ring.At(0).num_panels();
  std::vector<size_t> next(static_cast<size_t>(pool.num_threads()) * 16);  // a cache line each
  const double best = BestSeconds(pool, seconds, [&](int thread) {
    const kernels::PanelRange range = {num_panels * thread / pool.num_threads(),
                                       num_panels * (thread + 1) / pool.num_threads()};
    Multiply(matmul, product, ring.At(next[static_cast<size_t>(thread) * 16]++), rows, range,
             out.data());
  });
  KernelRate rate;
  rate.product = product.form;
  rate.format = tensor::Traits(product.matrix.dtype).name;
  rate.num_outputs = shape.num_outputs;
  rate.num_inputs = shape.num_inputs;
  rate.num_rows = product.num_rows;
  rate.bytes_per_s = static_cast<double>(ring.matrix_bytes()) / best;
  rate.operations_per_s =
      2.0 * static_cast<double>(product.num_rows * shape.num_outputs * shape.num_inputs) / best;
  return rate;
}

// Attention computes with int8 codes in integers, with every other format in float32.
double OperationsBound(const Bounds& bounds, const KernelRate& rate) {
  const std::string& type = rate.product == "attention" ? rate.format : rate.product;
  if (type == "int8") return bounds.int8_operations_per_s;
  if (type == "int16") return bounds.int16_operations_per_s;
  return bounds.float32_operations_per_s;
}

void SetShare(const Bounds& bounds, KernelRate* rate) {
  const double of_bytes = rate->bytes_per_s / bounds.bytes_per_s;
  const double of_operations = rate->operations_per_s / OperationsBound(bounds, *rate);
  rate->memory_bound = of_bytes > of_operations;
  rate->share = std::max(of_bytes, of_operations);
}

Bounds BoundsOf(const Roofline& roofline, std::string_view isa) {
  Bounds bounds;
  bounds.bytes_per_s = roofline.reads.front().bytes_per_s;
  for (const PeakRate& rate : roofline.peaks) {
    if (rate.name.find(isa) == std::string::npos) continue;
    if (rate.name.starts_with("int8")) bounds.int8_operations_per_s = rate.operations_per_s;
    if (rate.name.starts_with("int16")) bounds.int16_operations_per_s = rate.operations_per_s;
    if (rate.name.starts_with("fp32")) bounds.float32_operations_per_s = rate.operations_per_s;
  }
  if (bounds.int8_operations_per_s == 0) {  // no probe of its own
    bounds.int8_operations_per_s = bounds.float32_operations_per_s;
    bounds.int16_operations_per_s = bounds.float32_operations_per_s;
  }
  return bounds;
}

const kernels::KernelTable* TableOf(std::string_view isa) {
  if (isa.empty()) return kernels::BestKernels();
  for (const kernels::Isa level :
       {kernels::Isa::kAvx512, kernels::Isa::kAvx2, kernels::Isa::kNeon}) {
    const kernels::KernelTable* table = kernels::FindKernels(level);
    if (table != nullptr && table->name == isa) return table;
  }
  return nullptr;
}

Status MeasureProducts(const kernels::KernelTable& table, base::ThreadPool& pool,
                       const KernelRateOptions& options,
                       const std::function<void(const KernelRate&)>& on_row) {
  for (const Matrix& matrix : Matrices()) {
    const MatrixRing ring(matrix.dtype, matrix.shape, options.weight_bytes);
    if (!ring.ok()) {
      return Status::ResourceExhausted(
          fmt::format("no memory for {} bytes of weights", options.weight_bytes));
    }
    for (const std::string_view form : {"int8", "int16", "float32"}) {
      if (matrix.is_float() != (form == "float32")) continue;
      for (const int64_t num_rows : {1, 4, 16, 512}) {
        on_row(Measure(table.matmul, pool, {form, matrix, num_rows}, ring,
                       options.seconds_per_figure));
      }
    }
  }
  return Status::Ok();
}

}  // namespace

Status MeasureKernelRates(const KernelRateOptions& options, std::string* isa,
                          const std::function<void(const KernelRate&)>& on_row) {
  const kernels::KernelTable* table = TableOf(options.isa);
  if (table == nullptr && options.isa.empty()) {
    return Status::Unavailable("this processor has no AVX2, which every kernel needs");
  }
  if (table == nullptr) {
    return Status::InvalidArgument(
        fmt::format("this processor has no kernels for '{}'", options.isa));
  }
  *isa = table->name;
  Result<std::unique_ptr<base::ThreadPool>> pool = base::ThreadPool::Create(options.threads);
  if (!pool.ok()) return pool.status();
  // Of each thread: as much as its part of the weights, in the probe's steps of 256 bytes.
  const int64_t num_steps = static_cast<int64_t>(options.weight_bytes) / options.threads / 256;
  const int64_t working_set = std::max<int64_t>(num_steps, 1) * 256;
  const Result<Roofline> roofline =
      MeasureRoofline({{options.threads}, {working_set}, options.seconds_per_figure});
  if (!roofline.ok()) return roofline.status();
  const Bounds bounds = BoundsOf(*roofline, table->name);
  const auto report = [&](KernelRate rate) {
    SetShare(bounds, &rate);
    on_row(rate);
  };
  if (Status status = MeasureProducts(*table, **pool, options, report); !status.ok()) return status;
  for (const kernels::KvDtype dtype : {kernels::KvDtype::kFloat32, kernels::KvDtype::kFloat16,
                                       kernels::KvDtype::kBFloat16, kernels::KvDtype::kInt8}) {
    Status status = MeasureAttentionRates(table->attention, **pool, dtype, options.weight_bytes,
                                          options.seconds_per_figure, report);
    if (!status.ok()) return status;
  }
  return Status::Ok();
}

}  // namespace octavo::bench
