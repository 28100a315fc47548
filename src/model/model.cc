#include "model/model.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "model/forward_step.h"

namespace octavo::model {

namespace {

Workspace::Shape ShapeOf(const ModelOptions& options, const base::ThreadPool& pool) {
  return {options.max_rows, options.max_output_rows, options.max_model_len, pool.num_threads(),
          options.products};
}

}  // namespace

Model::Model(const ModelConfig& config, const ModelOptions& options, base::ThreadPool& pool)
    : config_(config),
      options_(options),
      pool_(pool),
      all_rows_plan_({options.max_rows, Workspace::NumSplitPartials(ShapeOf(options, pool))}),
      output_rows_plan_({options.max_rows, Workspace::NumSplitPartials(ShapeOf(options, pool))}),
      next_attention_item_(
          std::make_unique<std::atomic<int64_t>[]>(static_cast<size_t>(config.num_layers))) {}

Result<std::unique_ptr<Model>> Model::Load(const formats::GgufFile& file, const ModelConfig& config,
                                           const ModelOptions& options, base::ThreadPool& pool,
                                           base::MemoryLedger& ledger,
                                           const std::function<void(double)>& on_progress) {
  OCTAVO_CHECK(options.kernels != nullptr, "a kernel table must be chosen");
  std::unique_ptr<Model> model(new Model(config, options, pool));

  Result<Workspace> workspace = Workspace::Create(config, ShapeOf(options, pool), ledger);
  if (!workspace.ok()) return workspace.status();
  model->workspace_ = *std::move(workspace);

  Result<std::unique_ptr<ModelWeights>> weights =
      ModelWeights::Load(file, config, pool, ledger, on_progress);
  if (!weights.ok()) return weights.status();
  model->weights_ = *std::move(weights);
  model->rope_ = std::make_unique<RopeFrequencies>(
      config.rope, config.rot_dim, options.rope_model_len, model->weights_->rope_factors());
  return model;
}

void Model::Forward(const ForwardBatch& batch, kvstore::KvStore& store) {
  OCTAVO_CHECK(!batch.tokens.empty() &&
                   static_cast<int64_t>(batch.tokens.size()) <= options_.max_rows &&
                   static_cast<int64_t>(batch.output_rows.size()) <= options_.max_output_rows,
               "a batch within the limits that the model was loaded with");
  const RowRange all_rows{0, static_cast<int64_t>(batch.tokens.size())};
  const RowRange output_rows = OutputRange(batch);
  const AttentionPlan::Split split{store.layout().spec.block_size_tokens, config_.num_kv_heads,
                                   pool_.num_threads()};
  all_rows_plan_.Build(batch, all_rows, split);
  if (output_rows.count() < all_rows.count()) output_rows_plan_.Build(batch, output_rows, split);
  ForwardStep step(*this, batch, store);
  Mark(0, ProfileZone::kBatch);
  pool_.Run([&step](int thread) { step.Run(thread); });
  Mark(0, ProfileZone::kBarrierWait);
}

void Model::MarkEntry(int thread) const {
  if (options_.profiler == nullptr) return;
  if (thread == 0) return options_.profiler->Mark(0, ProfileZone::kBarrierWait);
  options_.profiler->Resume(thread);
}

void Model::Logits(int64_t first, int64_t count, float* out) {
  OCTAVO_CHECK(first >= 0 && count >= 1 && first + count <= options_.max_output_rows,
               "output rows of the last Forward");
  pool_.Run([&](int thread) {
    MarkEntry(thread);
    ComputeLogits(thread, first, count, out);
    Mark(thread, ProfileZone::kLogits);
  });
  Mark(0, ProfileZone::kBarrierWait);
}

// The thread's share of Logits.
void Model::ComputeLogits(int thread, int64_t first, int64_t count, float* out) {
  const Linear& output = weights_->output();
  const int64_t width = config_.hidden_dim;
  const bool quantised =
      options_.products != kernels::Products::kFloat32 && output.matrix.is_quantized();
  const LinearInput input{workspace_.output.Row(first), workspace_.output.stride,
                          workspace_.Input(width)};
  if (quantised) {
    const RowRange share = ShareOf(count, 1, thread, pool_.num_threads());
    for (int64_t row = share.begin; row < share.end; ++row) {
      QuantiseRow(workspace_.output.Row(first + row), width, row, input.quantized);
    }
    Meet(thread, ProfileZone::kLogits);
  }
  const RowRange panels = ShareOf(output.matrix.num_panels(), 1, thread, pool_.num_threads());
  if (panels.count() == 0) return;
  MultiplyPanels(output, input, count, panels, out, config_.vocab_size);
  if (output.bias == nullptr) return;
  const int64_t begin = panels.begin * quant::kPanelOutputs;
  const int64_t end = std::min<int64_t>(panels.end * quant::kPanelOutputs, config_.vocab_size);
  for (int64_t row = 0; row < count; ++row) {
    options_.kernels->rows.add(out + row * config_.vocab_size + begin, output.bias + begin,
                               end - begin);
  }
}

void Model::QuantiseRow(const float* x, int64_t width, int64_t row,
                        const QuantizedInput& out) const {
  if (options_.products == kernels::Products::kInt8) {
    options_.kernels->matmul.quantize_row(x, 0, width, row, out.int8);
  } else {
    options_.kernels->matmul.quantize_row16(x, row, out.int16);
  }
}

void Model::MultiplyPanels(const Linear& linear, const LinearInput& input, int64_t num_rows,
                           RowRange panels, float* out, int64_t out_stride) const {
  const kernels::MatMulKernels& matmul = options_.kernels->matmul;
  const kernels::PanelRange range{panels.begin, panels.end};
  if (options_.products == kernels::Products::kFloat32 || !linear.matrix.is_quantized()) {
    matmul.float32(linear.matrix, input.rows, input.stride, num_rows, range, out, out_stride);
  } else if (options_.products == kernels::Products::kInt8) {
    matmul.int8(linear.matrix, input.quantized.int8, num_rows, range, out, out_stride);
  } else {
    matmul.int16(linear.matrix, input.quantized.int16, num_rows, range, out, out_stride);
  }
}

}  // namespace octavo::model
