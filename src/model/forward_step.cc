#include "model/forward_step.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/arithmetic_version.h"

namespace octavo::model {
namespace {

// Columns are shared out in whole groups of 32, so that a thread may quantise what it has computed.
constexpr int64_t kPanelsPerUnit = kernels::kActivationGroup / quant::kPanelOutputs;

RowRange PanelShare(const Linear& linear, int thread, int num_threads) {
  return ShareOf(linear.matrix.num_panels(), kPanelsPerUnit, thread, num_threads);
}

// Panels whose products (256 KiB of a matrix) are still in a large L2 when the pass that follows
// them reads them.
int64_t PanelsPerBlock(int64_t num_rows) {
  constexpr int64_t kBlockFloats = 64 * 1024;
  const int64_t panels = kBlockFloats / (num_rows * quant::kPanelOutputs);
  return std::max(panels / kPanelsPerUnit, int64_t{1}) * kPanelsPerUnit;
}

RowRange ColumnsOf(const Linear& linear, RowRange panels) {
  const int64_t outputs = linear.matrix.num_outputs;
  return {std::min(panels.begin * quant::kPanelOutputs, outputs),
          std::min(panels.end * quant::kPanelOutputs, outputs)};
}

}  // namespace

RowRange OutputRange(const ForwardBatch& batch) {
  if (batch.output_rows.empty()) return {0, 0};
  return {batch.output_rows.front(), batch.output_rows.back() + 1};
}

RowRange ShareOf(int64_t total, int64_t unit, int thread, int num_threads) {
  const int64_t units = (total + unit - 1) / unit;
  return {std::min(units * thread / num_threads * unit, total),
          std::min(units * (thread + 1) / num_threads * unit, total)};
}

ForwardStep::ForwardStep(Model& model, const ForwardBatch& batch, kvstore::KvStore& store)
    : model_(model),
      batch_(batch),
      store_(store),
      kernels_(*model.options_.kernels),
      config_(model.config_),
      workspace_(model.workspace_),
      num_threads_(model.pool_.num_threads()),
      num_rows_(static_cast<int64_t>(batch.tokens.size())),
      quantise_(model.options_.products != kernels::Products::kFloat32 &&
                model.weights_->has_quantized_matrix()) {}

// A width that is no whole number of groups feeds matrices in plain formats only.
bool ForwardStep::QuantisesInput(int64_t width) const {
  return quantise_ && width % kernels::kActivationGroup == 0;
}

void ForwardStep::Run(int thread) {
  model_.MarkEntry(thread);
  Embed(thread);
  model_.Meet(thread, ProfileZone::kEmbed);
  for (int32_t layer = 0; layer < config_.num_layers; ++layer) {
    model_.MarkLayer(thread, layer);
    ProjectQueryKeyValue(thread, layer);
    model_.Meet(thread, ProfileZone::kQueryKeyValue);
    RotateAndStore(thread, layer);
    model_.Meet(thread, ProfileZone::kRotateStore);
    const RowRange rows = ActiveRows(layer);
    if (rows.count() == 0) break;
    AttentionBlock(thread, layer, rows);
    FeedForwardBlock(thread, layer, rows);
  }
  model_.MarkLayer(thread, -1);
  NormaliseOutputs(thread);
  model_.Mark(thread, ProfileZone::kOutputNorm);
}

RowRange ForwardStep::ActiveRows(int32_t layer) const {
  if (layer + 1 < config_.num_layers) return {0, num_rows_};
  return OutputRange(batch_);
}

void ForwardStep::Embed(int thread) {
  if (thread == 0) {
    for (int32_t layer = 0; layer < config_.num_layers; ++layer) {
      model_.next_attention_item_[static_cast<size_t>(layer)].store(0, std::memory_order_relaxed);
    }
  }
  const RowRange share = ShareOf(num_rows_, 1, thread, num_threads_);
  for (int64_t row = share.begin; row < share.end; ++row) {
    model_.weights_->EmbedToken(batch_.tokens[static_cast<size_t>(row)],
                                workspace_.hidden.Row(row));
  }
  int64_t first_row = 0;
  for (const SequenceSlice& slice : batch_.slices) {
    const int64_t begin = std::max(share.begin, first_row);
    const int64_t end = std::min(share.end, first_row + slice.num_rows);
    for (int64_t row = begin; row < end; ++row) {
      model_.rope_->FillRow(slice.first_position + row - first_row, workspace_.rope_cos.Row(row),
                            workspace_.rope_sin.Row(row));
    }
    first_row += slice.num_rows;
  }
}

// One row is normalised by every thread for itself, which is cheaper than meeting at a barrier;
// many rows are shared out.
LinearInput ForwardStep::Normalise(int thread, const float* weight, RowRange rows) {
  const int64_t width = config_.hidden_dim;
  if (rows.count() == 1) {
    const ThreadScratch& scratch = workspace_.thread_scratch(thread);
    kernels_.rows.rms_norm(workspace_.hidden.Row(rows.begin), weight, width, config_.rms_norm_eps,
                           scratch.row);
    const LinearInput input{scratch.row, width, scratch.quantized.WithWidth(width)};
    if (QuantisesInput(width)) model_.QuantiseRow(scratch.row, width, 0, input.quantized);
    model_.Mark(thread, ProfileZone::kNormQuantise);
    return input;
  }
  const RowRange share = ShareOf(rows.count(), 1, thread, num_threads_);
  const LinearInput input{workspace_.normed.Row(0), workspace_.normed.stride,
                          workspace_.Input(width)};
  for (int64_t row = share.begin; row < share.end; ++row) {
    float* normed = workspace_.normed.Row(row);
    kernels_.rows.rms_norm(workspace_.hidden.Row(rows.begin + row), weight, width,
                           config_.rms_norm_eps, normed);
    if (QuantisesInput(width)) model_.QuantiseRow(normed, width, row, input.quantized);
  }
  model_.Meet(thread, ProfileZone::kNormQuantise);
  return input;
}

// Rows that are whole already, `shared` among the threads if they are many.
LinearInput ForwardStep::Quantise(int thread, const RowBuffer& source, int64_t width, RowRange rows,
                                  const QuantizedInput& shared) {
  const bool is_one = rows.count() == 1;
  const LinearInput input{
      source.Row(rows.begin), source.stride,
      is_one ? workspace_.thread_scratch(thread).quantized.WithWidth(width) : shared};
  if (!QuantisesInput(width)) return input;
  const RowRange share = is_one ? RowRange{0, 1} : ShareOf(rows.count(), 1, thread, num_threads_);
  for (int64_t row = share.begin; row < share.end; ++row) {
    model_.QuantiseRow(source.Row(rows.begin + row), width, row, input.quantized);
  }
  if (is_one) {
    model_.Mark(thread, ProfileZone::kNormQuantise);
  } else {
    model_.Meet(thread, ProfileZone::kNormQuantise);
  }
  return input;
}

void ForwardStep::Multiply(const Linear& linear, const LinearInput& input, RowRange rows,
                           RowRange panels, const RowBuffer& out) const {
  if (panels.count() == 0) return;
  model_.MultiplyPanels(linear, input, rows.count(), panels, out.Row(rows.begin), out.stride);
  if (linear.bias == nullptr) return;
  const RowRange columns = ColumnsOf(linear, panels);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    kernels_.rows.add(out.Row(row) + columns.begin, linear.bias + columns.begin, columns.count());
  }
}

void ForwardStep::MultiplyIntoResidual(int thread, const Linear& linear, const LinearInput& input,
                                       RowRange rows) const {
  const RowRange share = PanelShare(linear, thread, num_threads_);
  const int64_t step = PanelsPerBlock(rows.count());
  for (int64_t panel = share.begin; panel < share.end; panel += step) {
    const RowRange panels{panel, std::min(panel + step, share.end)};
    Multiply(linear, input, rows, panels, workspace_.projected);
    const RowRange columns = ColumnsOf(linear, panels);
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      kernels_.rows.add(workspace_.hidden.Row(row) + columns.begin,
                        workspace_.projected.Row(row) + columns.begin, columns.count());
    }
  }
}

void ForwardStep::ProjectQueryKeyValue(int thread, int32_t layer) {
  const LayerWeights& weights = model_.weights_->layer(layer);
  const RowRange rows{0, num_rows_};
  const LinearInput input = Normalise(thread, weights.attention_norm, rows);
  const auto multiply = [&](const Linear& linear, const RowBuffer& out) {
    Multiply(linear, input, rows, PanelShare(linear, thread, num_threads_), out);
  };
  multiply(weights.query, workspace_.query);
  multiply(weights.key, workspace_.key);
  multiply(weights.value, workspace_.value);
}

void ForwardStep::RotateAndStore(int thread, int32_t layer) {
  const RowRange share = ShareOf(num_rows_, 1, thread, num_threads_);
  int64_t first_row = 0;
  for (const SequenceSlice& slice : batch_.slices) {
    const kernels::PagedKvView view = store_.View(layer, slice.block_table);
    const int64_t begin = std::max(share.begin, first_row);
    const int64_t end = std::min(share.end, first_row + slice.num_rows);
    for (int64_t row = begin; row < end; ++row) {
      const float* cos = workspace_.rope_cos.Row(row);
      const float* sin = workspace_.rope_sin.Row(row);
      kernels_.rows.rope(workspace_.query.Row(row), config_.num_heads, config_.head_dim,
                         config_.rot_dim, config_.rope.layout, cos, sin);
      kernels_.rows.rope(workspace_.key.Row(row), config_.num_kv_heads, config_.head_dim,
                         config_.rot_dim, config_.rope.layout, cos, sin);
      kernels_.attention.store_kv(view, slice.first_position + row - first_row,
                                  config_.num_kv_heads, workspace_.key.Row(row),
                                  workspace_.value.Row(row));
    }
    first_row += slice.num_rows;
  }
}

void ForwardStep::AttentionBlock(int thread, int32_t layer, RowRange rows) {
  const LayerWeights& weights = model_.weights_->layer(layer);
  Attend(thread, layer);
  model_.Meet(thread, ProfileZone::kAttention);
  const LinearInput input = Quantise(thread, workspace_.attended, config_.query_dim(), rows,
                                     workspace_.Input(config_.query_dim()));
  MultiplyIntoResidual(thread, weights.attention_output, input, rows);
  model_.Meet(thread, ProfileZone::kAttentionOutput);
}

void ForwardStep::FeedForwardBlock(int thread, int32_t layer, RowRange rows) {
  const LayerWeights& weights = model_.weights_->layer(layer);
  const LinearInput input = Normalise(thread, weights.feed_forward_norm, rows);
  const LinearInput inner = MultiplyAndActivate(thread, weights, input, rows);
  MultiplyIntoResidual(thread, weights.down, inner, rows);
  model_.Meet(thread, ProfileZone::kDown);
}

// Gate, up and SwiGLU of the thread's columns, and the rows of all threads as the input of the down
// product. A scale per group lets a thread quantise its own columns; one per row does not.
LinearInput ForwardStep::MultiplyAndActivate(int thread, const LayerWeights& weights,
                                             const LinearInput& input, RowRange rows) {
  const bool by_columns =
      model_.options_.products == kernels::Products::kInt8 && weights.down.matrix.is_quantized();
  const QuantizedInput shared = workspace_.Inner(config_.ffn_dim);
  const RowRange share = PanelShare(weights.gate, thread, num_threads_);
  const int64_t step = PanelsPerBlock(rows.count());
  for (int64_t panel = share.begin; panel < share.end; panel += step) {
    if (panel > share.begin) model_.Mark(thread, ProfileZone::kActivation);
    const RowRange panels{panel, std::min(panel + step, share.end)};
    Multiply(weights.gate, input, rows, panels, workspace_.gate);
    Multiply(weights.up, input, rows, panels, workspace_.up);
    model_.Mark(thread, ProfileZone::kGateUp);
    const RowRange columns = ColumnsOf(weights.gate, panels);
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      float* gate = workspace_.gate.Row(row);
      kernels_.rows.silu_mul(gate + columns.begin, workspace_.up.Row(row) + columns.begin,
                             columns.count(), gate + columns.begin);
      if (!by_columns) continue;
      kernels_.matmul.quantize_row(gate, columns.begin, columns.end, row - rows.begin, shared.int8);
    }
  }
  model_.Meet(thread, ProfileZone::kActivation);
  if (by_columns || !weights.down.matrix.is_quantized()) {
    return {workspace_.gate.Row(rows.begin), workspace_.gate.stride, shared};
  }
  return Quantise(thread, workspace_.gate, config_.ffn_dim, rows, shared);
}

void ForwardStep::NormaliseOutputs(int thread) {
  const RowRange share =
      ShareOf(static_cast<int64_t>(batch_.output_rows.size()), 1, thread, num_threads_);
  for (int64_t i = share.begin; i < share.end; ++i) {
    kernels_.rows.rms_norm(workspace_.hidden.Row(batch_.output_rows[static_cast<size_t>(i)]),
                           model_.weights_->output_norm(), config_.hidden_dim, config_.rms_norm_eps,
                           workspace_.output.Row(i));
  }
}

}  // namespace octavo::model
