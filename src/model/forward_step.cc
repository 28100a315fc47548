#include "model/forward_step.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/arithmetic_version.h"

namespace octavo::model {
namespace {

// Columns are shared out in whole groups of 32, so that a thread may quantise what it has computed.
constexpr int64_t kPanelsPerUnit = kernels::kActivationGroup / quant::kPanelOutputs;

RowRange PanelShare(const Linear& linear, int thread, int num_threads) {
  return ShareOf(linear.matrix.num_panels(), kPanelsPerUnit, thread, num_threads);
}

RowRange ColumnShare(const Linear& linear, int thread, int num_threads) {
  const RowRange panels = PanelShare(linear, thread, num_threads);
  const int64_t outputs = linear.matrix.num_outputs;
  return {std::min(panels.begin * quant::kPanelOutputs, outputs),
          std::min(panels.end * quant::kPanelOutputs, outputs)};
}

float* Head(float* row, int64_t head, int64_t head_dim) { return row + head * head_dim; }

}  // namespace

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
      pool_(model.pool_),
      num_threads_(model.pool_.num_threads()),
      num_rows_(static_cast<int64_t>(batch.tokens.size())),
      quantise_(model.options_.int8_products && model.weights_->has_quantized_matrix()) {}

bool ForwardStep::UsesInt8(const Linear& linear) const {
  return quantise_ && linear.matrix.is_quantized();
}

// A width that is no whole number of groups feeds matrices in plain formats only.
bool ForwardStep::QuantisesInput(int64_t width) const {
  return quantise_ && width % kernels::kActivationGroup == 0;
}

void ForwardStep::Run(int thread) {
  Embed(thread);
  pool_.Barrier();
  for (int32_t layer = 0; layer < config_.num_layers; ++layer) {
    ProjectQueryKeyValue(thread, layer);
    pool_.Barrier();
    RotateAndStore(thread, layer);
    pool_.Barrier();
    const RowRange rows = ActiveRows(layer);
    if (rows.count() == 0) break;
    AttentionBlock(thread, layer, rows);
    FeedForwardBlock(thread, layer, rows);
  }
  NormaliseOutputs(thread);
}

// After its K and V are stored, the last layer matters only for the rows whose hidden state is
// wanted.
RowRange ForwardStep::ActiveRows(int32_t layer) const {
  if (layer + 1 < config_.num_layers) return {0, num_rows_};
  if (batch_.output_rows.empty()) return {0, 0};
  return {batch_.output_rows.front(), batch_.output_rows.back() + 1};
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
    LinearInput input{scratch.row, width, scratch.quantized};
    input.quantized.num_inputs = width;
    if (QuantisesInput(width))
      kernels_.matmul.quantize_row(scratch.row, 0, width, 0, input.quantized);
    return input;
  }
  const RowRange share = ShareOf(rows.count(), 1, thread, num_threads_);
  const LinearInput input{workspace_.normed.Row(0), workspace_.normed.stride,
                          workspace_.QuantizedInput(width)};
  for (int64_t row = share.begin; row < share.end; ++row) {
    float* normed = workspace_.normed.Row(row);
    kernels_.rows.rms_norm(workspace_.hidden.Row(rows.begin + row), weight, width,
                           config_.rms_norm_eps, normed);
    if (QuantisesInput(width)) kernels_.matmul.quantize_row(normed, 0, width, row, input.quantized);
  }
  pool_.Barrier();
  return input;
}

LinearInput ForwardStep::Quantise(int thread, const RowBuffer& source, int64_t width,
                                  RowRange rows) {
  if (rows.count() == 1) {
    LinearInput input{source.Row(rows.begin), source.stride,
                      workspace_.thread_scratch(thread).quantized};
    input.quantized.num_inputs = width;
    if (QuantisesInput(width))
      kernels_.matmul.quantize_row(input.rows, 0, width, 0, input.quantized);
    return input;
  }
  const LinearInput input{source.Row(rows.begin), source.stride, workspace_.QuantizedInput(width)};
  if (QuantisesInput(width)) {
    const RowRange share = ShareOf(rows.count(), 1, thread, num_threads_);
    for (int64_t row = share.begin; row < share.end; ++row) {
      kernels_.matmul.quantize_row(source.Row(rows.begin + row), 0, width, row, input.quantized);
    }
    pool_.Barrier();
  }
  return input;
}

void ForwardStep::Multiply(int thread, const Linear& linear, const LinearInput& input,
                           RowRange rows, const RowBuffer& out) const {
  const RowRange panels = PanelShare(linear, thread, num_threads_);
  if (panels.count() == 0) return;
  const kernels::PanelRange range{panels.begin, panels.end};
  float* first_row = out.Row(rows.begin);
  if (UsesInt8(linear)) {
    kernels_.matmul.int8(linear.matrix, input.quantized, rows.count(), range, first_row,
                         out.stride);
  } else {
    kernels_.matmul.float32(linear.matrix, input.rows, input.stride, rows.count(), range, first_row,
                            out.stride);
  }
  if (linear.bias == nullptr) return;
  const RowRange columns = ColumnShare(linear, thread, num_threads_);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    kernels_.rows.add(out.Row(row) + columns.begin, linear.bias + columns.begin, columns.count());
  }
}

void ForwardStep::AddToResidual(int thread, const Linear& linear, RowRange rows) const {
  const RowRange columns = ColumnShare(linear, thread, num_threads_);
  if (columns.count() == 0) return;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    kernels_.rows.add(workspace_.hidden.Row(row) + columns.begin,
                      workspace_.projected.Row(row) + columns.begin, columns.count());
  }
}

void ForwardStep::ProjectQueryKeyValue(int thread, int32_t layer) {
  const LayerWeights& weights = model_.weights_->layer(layer);
  const RowRange rows{0, num_rows_};
  const LinearInput input = Normalise(thread, weights.attention_norm, rows);
  Multiply(thread, weights.query, input, rows, workspace_.query);
  Multiply(thread, weights.key, input, rows, workspace_.key);
  Multiply(thread, weights.value, input, rows, workspace_.value);
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
  if (rows.count() == 1) {
    AttendSplit(thread, layer, rows.begin);
  } else {
    Attend(thread, layer, rows);
  }
  pool_.Barrier();
  const LinearInput input = Quantise(thread, workspace_.attended, config_.query_dim(), rows);
  Multiply(thread, weights.attention_output, input, rows, workspace_.projected);
  AddToResidual(thread, weights.attention_output, rows);
  pool_.Barrier();
}

// Hands out (slice, row tile, kv head) items, the costly late tiles of a prompt first.
void ForwardStep::Attend(int thread, int32_t layer, RowRange rows) {
  std::atomic<int64_t>& next_item = model_.next_attention_item_[static_cast<size_t>(layer)];
  const float scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim)));
  int64_t item = next_item.fetch_add(1, std::memory_order_relaxed);
  int64_t first_item = 0;
  int64_t first_row = 0;
  for (const SequenceSlice& slice : batch_.slices) {
    const RowRange active{std::max(rows.begin, first_row) - first_row,
                          std::min(rows.end, first_row + slice.num_rows) - first_row};
    const int64_t tiles = (std::max<int64_t>(active.count(), 0) + kernels::kMaxAttentionRows - 1) /
                          kernels::kMaxAttentionRows;
    const int64_t num_items = tiles * config_.num_kv_heads;
    const kernels::PagedKvView view = store_.View(layer, slice.block_table);
    const kernels::QueryRows queries{workspace_.query.Row(first_row), workspace_.query.stride,
                                     slice.first_position, config_.group_size(), scale};
    for (; item < first_item + num_items;
         item = next_item.fetch_add(1, std::memory_order_relaxed)) {
      const int64_t index = item - first_item;
      const int64_t tile = tiles - 1 - index / config_.num_kv_heads;
      const int64_t begin = active.begin + tile * kernels::kMaxAttentionRows;
      AttendRowTile(thread, view, queries, index % config_.num_kv_heads,
                    {begin, std::min(begin + kernels::kMaxAttentionRows, active.end)}, first_row);
    }
    first_item += num_items;
    first_row += slice.num_rows;
  }
}

// All chunks that the rows of one tile see, folded in order; a chunk that only the later rows reach
// is computed for those.
void ForwardStep::AttendRowTile(int thread, const kernels::PagedKvView& view,
                                const kernels::QueryRows& queries, int64_t kv_head,
                                RowRange slice_rows, int64_t first_row) {
  const ThreadScratch& scratch = workspace_.thread_scratch(thread);
  const int64_t head_dim = config_.head_dim;
  const int64_t group = config_.group_size();
  const int64_t partial = kernels::PartialFloats(head_dim);
  const int64_t last_position = queries.first_position + slice_rows.end - 1;
  for (int64_t chunk = 0; chunk * kernels::kAttentionChunkTokens <= last_position; ++chunk) {
    const int64_t chunk_begin = chunk * kernels::kAttentionChunkTokens;
    const int64_t begin = std::max(slice_rows.begin, chunk_begin - queries.first_position);
    const int64_t skipped = (begin - slice_rows.begin) * group;
    float* target = chunk == 0 ? scratch.running : scratch.partials;
    kernels_.attention.attend_chunk(view, queries, kv_head, begin, slice_rows.end, chunk,
                                    scratch.attention, target);
    if (chunk == 0) continue;
    for (int64_t i = 0; i < (slice_rows.end - begin) * group; ++i) {
      kernels_.attention.fold_partial(scratch.running + (skipped + i) * partial,
                                      scratch.partials + i * partial, head_dim);
    }
  }
  for (int64_t row = slice_rows.begin; row < slice_rows.end; ++row) {
    float* out = workspace_.attended.Row(first_row + row);
    for (int64_t member = 0; member < group; ++member) {
      const int64_t i = (row - slice_rows.begin) * group + member;
      kernels_.attention.finish(scratch.running + i * partial, head_dim,
                                Head(out, kv_head * group + member, head_dim));
    }
  }
}

// One row: the chunks of its keys are shared out among the threads, then folded in order, head by
// head.
void ForwardStep::AttendSplit(int thread, int32_t layer, int64_t row) {
  int64_t first_row = 0;
  size_t index = 0;
  while (row >= first_row + batch_.slices[index].num_rows) {
    first_row += batch_.slices[index++].num_rows;
  }
  const SequenceSlice& slice = batch_.slices[index];
  const int64_t head_dim = config_.head_dim;
  const int64_t group = config_.group_size();
  const int64_t partial = kernels::PartialFloats(head_dim);
  const int64_t position = slice.first_position + row - first_row;
  const int64_t num_chunks = position / kernels::kAttentionChunkTokens + 1;
  const kernels::PagedKvView view = store_.View(layer, slice.block_table);
  const kernels::QueryRows queries{
      workspace_.query.Row(row), workspace_.query.stride, position, config_.group_size(),
      static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim)))};
  const auto partials_of = [&](int64_t kv_head, int64_t chunk) {
    return workspace_.split_partials + (chunk * config_.num_kv_heads + kv_head) * group * partial;
  };

  std::atomic<int64_t>& next_item = model_.next_attention_item_[static_cast<size_t>(layer)];
  const int64_t num_items = num_chunks * config_.num_kv_heads;
  for (int64_t item = next_item.fetch_add(1, std::memory_order_relaxed); item < num_items;
       item = next_item.fetch_add(1, std::memory_order_relaxed)) {
    const int64_t kv_head = item % config_.num_kv_heads;
    const int64_t chunk = item / config_.num_kv_heads;
    kernels_.attention.attend_chunk(view, queries, kv_head, 0, 1, chunk,
                                    workspace_.thread_scratch(thread).attention,
                                    partials_of(kv_head, chunk));
  }
  pool_.Barrier();

  const RowRange heads = ShareOf(config_.num_heads, 1, thread, num_threads_);
  for (int64_t head = heads.begin; head < heads.end; ++head) {
    const int64_t offset = head % group * partial;
    float* running = partials_of(head / group, 0) + offset;
    for (int64_t chunk = 1; chunk < num_chunks; ++chunk) {
      kernels_.attention.fold_partial(running, partials_of(head / group, chunk) + offset, head_dim);
    }
    kernels_.attention.finish(running, head_dim,
                              Head(workspace_.attended.Row(row), head, head_dim));
  }
}

void ForwardStep::FeedForwardBlock(int thread, int32_t layer, RowRange rows) {
  const LayerWeights& weights = model_.weights_->layer(layer);
  const LinearInput input = Normalise(thread, weights.feed_forward_norm, rows);
  Multiply(thread, weights.gate, input, rows, workspace_.gate);
  Multiply(thread, weights.up, input, rows, workspace_.up);

  const RowRange columns = ColumnShare(weights.gate, thread, num_threads_);
  const LinearInput inner{workspace_.gate.Row(rows.begin), workspace_.gate.stride,
                          workspace_.QuantizedInner(config_.ffn_dim)};
  for (int64_t row = rows.begin; columns.count() > 0 && row < rows.end; ++row) {
    float* gate = workspace_.gate.Row(row);
    kernels_.rows.silu_mul(gate + columns.begin, workspace_.up.Row(row) + columns.begin,
                           columns.count(), gate + columns.begin);
    if (UsesInt8(weights.down)) {
      kernels_.matmul.quantize_row(gate, columns.begin, columns.end, row - rows.begin,
                                   inner.quantized);
    }
  }
  pool_.Barrier();
  Multiply(thread, weights.down, inner, rows, workspace_.projected);
  AddToResidual(thread, weights.down, rows);
  pool_.Barrier();
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
