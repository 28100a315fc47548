// ForwardStep's attention: prompt rows tile by tile, decode rows group by group.

#include <algorithm>
#include <cmath>

#include "kernels/arithmetic_version.h"
#include "model/forward_step.h"

namespace octavo::model {
namespace {

constexpr int64_t kTile = kernels::kAttentionTileTokens;
constexpr int64_t kChunkTokens = kernels::kAttentionChunkTokens;

kernels::TileSpan TilesOf(int64_t chunk) {
  constexpr int64_t kChunkTiles = kChunkTokens / kTile;
  return {chunk * kChunkTiles, (chunk + 1) * kChunkTiles};
}

}  // namespace

// One kv head of a decode item, on its way through the tiles of a chunk.
struct ForwardStep::DecodeVisit {
  const AttentionPlan& plan;
  int thread;
  int32_t layer;
  int64_t kv_head;
  int64_t first_row;  // the item's first decode row
  float* partials;    // [rows of the item, group_size, PartialFloats(head_dim)]
};

const AttentionPlan& ForwardStep::PlanOf(int32_t layer) const {
  const bool is_partial = ActiveRows(layer).count() < num_rows_;
  return is_partial ? model_.output_rows_plan_ : model_.all_rows_plan_;
}

// Row `row` of the batch and its kv groups, as the first of the rows to be attended.
kernels::QueryRows ForwardStep::QueriesFrom(int64_t row) const {
  return {.q = workspace_.query.Row(row),
          .row_stride = workspace_.query.stride,
          .num_rows = 1,
          .first_position = 0,
          .position_step = 0,
          .group_size = config_.group_size(),
          .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim)))};
}

float* ForwardStep::AttendedHead(int64_t row, int64_t head) const {
  return workspace_.attended.Row(row) + head * config_.head_dim;
}

// The partial of the first head of a decode row's kv group in an item that is one chunk.
float* ForwardStep::SplitPartial(const DecodeItem& item, int64_t kv_head, int64_t row) const {
  const int64_t groups = item.first_partial * config_.num_kv_heads + kv_head * item.rows.count();
  return workspace_.split_partials + (groups + row - item.rows.begin) * config_.group_size() *
                                         kernels::PartialFloats(config_.head_dim);
}

// Hands out the plan's items, one kv head at a time. All prompt tiles see one kv head before any
// sees the next: its K and V stay in L2.
void ForwardStep::Attend(int thread, int32_t layer) {
  const AttentionPlan& plan = PlanOf(layer);
  std::atomic<int64_t>& next_item = model_.next_attention_item_[static_cast<size_t>(layer)];
  const int64_t num_kv_heads = config_.num_kv_heads;
  const int64_t num_tiles = std::ssize(plan.prompt_tiles());
  const int64_t num_items = num_tiles + std::ssize(plan.decode_items());
  for (int64_t next = next_item.fetch_add(1, std::memory_order_relaxed);
       next < num_items * num_kv_heads; next = next_item.fetch_add(1, std::memory_order_relaxed)) {
    if (next < num_tiles * num_kv_heads) {
      const auto index = static_cast<size_t>(next % num_tiles);
      AttendPromptTile(thread, layer, plan.prompt_tiles()[index], next / num_tiles);
    } else {
      const auto index = static_cast<size_t>(next / num_kv_heads - num_tiles);
      AttendDecodeItem(thread, layer, plan.decode_items()[index], next % num_kv_heads);
    }
  }
  if (plan.splits_chunks() && !plan.decode_rows().empty()) {
    model_.Meet(thread, ProfileZone::kAttention);
    FoldChunks(thread, plan);
  }
}

// All chunks that the rows see, folded in order; a chunk that only the later rows reach is computed
// for those.
void ForwardStep::AttendPromptTile(int thread, int32_t layer, const PromptTile& tile,
                                   int64_t kv_head) {
  const SequenceSlice& slice = batch_.slices[tile.slice];
  const kernels::PagedKvView view = store_.View(layer, slice.block_table);
  const ThreadScratch& scratch = workspace_.thread_scratch(thread);
  const int64_t group = config_.group_size();
  const int64_t partial = kernels::PartialFloats(config_.head_dim);
  const int64_t last_position = slice.first_position + tile.rows.end - 1;
  for (int64_t chunk = 0; chunk * kChunkTokens <= last_position; ++chunk) {
    const int64_t begin = std::max(tile.rows.begin, chunk * kChunkTokens - slice.first_position);
    kernels::QueryRows queries = QueriesFrom(tile.first_row + begin);
    queries.num_rows = tile.rows.end - begin;
    queries.first_position = slice.first_position + begin;
    queries.position_step = 1;
    float* target = chunk == 0 ? scratch.running : scratch.partials;
    kernels_.attention.attend_tiles(view, queries, kv_head, TilesOf(chunk), scratch.attention,
                                    target);
    if (chunk == 0) continue;
    float* running = scratch.running + (begin - tile.rows.begin) * group * partial;
    for (int64_t i = 0; i < queries.num_rows * group; ++i) {
      kernels_.attention.fold_partial(running + i * partial, target + i * partial,
                                      config_.head_dim);
    }
  }
  for (int64_t i = 0; i < tile.rows.count() * group; ++i) {
    kernels_.attention.finish(
        scratch.running + i * partial, config_.head_dim,
        AttendedHead(tile.first_row + tile.rows.begin + i / group, kv_head * group + i % group));
  }
}

void ForwardStep::AttendDecodeItem(int thread, int32_t layer, const DecodeItem& item,
                                   int64_t kv_head) {
  const AttentionPlan& plan = PlanOf(layer);
  DecodeVisit visit{plan, thread, layer, kv_head, item.rows.begin, nullptr};
  if (plan.splits_chunks()) {
    visit.partials = SplitPartial(item, kv_head, item.rows.begin);
    VisitTiles(visit, item.rows, TilesOf(item.chunk));
    return;
  }
  const ThreadScratch& scratch = workspace_.thread_scratch(thread);
  const std::span<const DecodeRow> rows = plan.decode_rows();
  const int64_t group = config_.group_size();
  const int64_t partial = kernels::PartialFloats(config_.head_dim);
  bool any_row_reaches = true;
  for (int64_t chunk = 0; any_row_reaches; ++chunk) {
    visit.partials = chunk == 0 ? scratch.running : scratch.partials;
    VisitTiles(visit, item.rows, TilesOf(chunk));
    any_row_reaches = false;
    for (int64_t i = 0; i < item.rows.count() * group; ++i) {
      const int64_t position = rows[static_cast<size_t>(item.rows.begin + i / group)].position;
      any_row_reaches |= position >= (chunk + 1) * kChunkTokens;
      if (chunk == 0 || position < chunk * kChunkTokens) continue;
      kernels_.attention.fold_partial(scratch.running + i * partial, visit.partials + i * partial,
                                      config_.head_dim);
    }
  }
  for (int64_t i = 0; i < item.rows.count() * group; ++i) {
    const int64_t row = rows[static_cast<size_t>(item.rows.begin + i / group)].row;
    kernels_.attention.finish(scratch.running + i * partial, config_.head_dim,
                              AttendedHead(row, kv_head * group + i % group));
  }
}

// The tiles of one chunk, as far as each row sees them: rows that share tiles go through them
// together, until the first of them goes its own way.
void ForwardStep::VisitTiles(const DecodeVisit& visit, RowRange rows, kernels::TileSpan tiles) {
  const std::span<const DecodeRow> all = visit.plan.decode_rows();
  for (RowRange run = rows; run.begin < rows.end; run.begin = run.end) {
    const DecodeRow& first = all[static_cast<size_t>(run.begin)];
    int64_t end = tiles.end;
    for (run.end = run.begin + 1; run.end < rows.end; ++run.end) {
      const int64_t shared = all[static_cast<size_t>(run.end)].shared_tiles;
      if (shared <= tiles.begin) break;
      end = std::min(end, shared);
    }
    if (first.position < tiles.begin * kTile) continue;  // alone, and it has seen all
    kernels::QueryRows queries = QueriesFrom(first.row);
    queries.num_rows = run.count();
    queries.first_position = run.count() == 1 ? first.position : end * kTile - 1;
    const int64_t skipped = (run.begin - visit.first_row) * config_.group_size() *
                            kernels::PartialFloats(config_.head_dim);
    kernels_.attention.attend_tiles(
        store_.View(visit.layer, first.block_table), queries, visit.kv_head, {tiles.begin, end},
        workspace_.thread_scratch(visit.thread).attention, visit.partials + skipped);
    if (end < tiles.end) VisitTiles(visit, run, {end, tiles.end});
  }
}

// Decode rows whose chunks were shared out: the chunks are folded in order, head by head.
void ForwardStep::FoldChunks(int thread, const AttentionPlan& plan) {
  const int64_t group = config_.group_size();
  const int64_t partial = kernels::PartialFloats(config_.head_dim);
  const int64_t num_heads = config_.num_heads;
  const int64_t num_rows = std::ssize(plan.decode_rows());
  const RowRange share = ShareOf(num_rows * num_heads, 1, thread, num_threads_);
  for (int64_t i = share.begin; i < share.end; ++i) {
    const auto index = static_cast<size_t>(i / num_heads);
    const int64_t head = i % num_heads;
    const DecodeRow& row = plan.decode_rows()[index];
    const auto partial_of = [&](int64_t chunk) {
      return SplitPartial(plan.ItemOf(index, chunk), head / group, i / num_heads) +
             head % group * partial;
    };
    float* running = partial_of(0);
    for (int64_t chunk = 1; chunk * kChunkTokens <= row.position; ++chunk) {
      kernels_.attention.fold_partial(running, partial_of(chunk), config_.head_dim);
    }
    kernels_.attention.finish(running, config_.head_dim, AttendedHead(row.row, head));
  }
}

}  // namespace octavo::model
