#include "model/attention_plan.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/arithmetic_version.h"
#include "kernels/attention.h"

namespace octavo::model {
namespace {

constexpr int64_t kTile = kernels::kAttentionTileTokens;
constexpr int64_t kChunkTiles = kernels::kAttentionChunkTokens / kTile;
// Rows of a group that are worth a visit of their own to the tiles that the group shares, if a
// thread would have nothing to do otherwise.
constexpr int64_t kMinSharingRows = 4;
// Items per thread that let the threads finish at about the same time.
constexpr int64_t kItemsPerThread = 5;

int64_t NumTiles(int64_t position) { return position / kTile + 1; }

int64_t NumChunks(int64_t position) { return position / kernels::kAttentionChunkTokens + 1; }

// Leading tiles that both rows see whole in the same blocks.
int64_t SharedTiles(const DecodeRow& a, const DecodeRow& b, int64_t block_size_tokens) {
  const int64_t num_positions = std::min(a.position, b.position) + 1;
  const int64_t num_blocks = (num_positions + block_size_tokens - 1) / block_size_tokens;
  const auto end = a.block_table.begin() + num_blocks;
  const auto [differing, other] = std::mismatch(a.block_table.begin(), end, b.block_table.begin());
  const int64_t num_common = (differing - a.block_table.begin()) * block_size_tokens;
  return std::min(num_common, num_positions) / kTile;
}

}  // namespace

AttentionPlan::AttentionPlan(const Limits& limits) : limits_(limits) {
  prompt_tiles_.reserve(static_cast<size_t>(limits.max_rows));
  decode_rows_.reserve(static_cast<size_t>(limits.max_rows));
  decode_items_.reserve(static_cast<size_t>(std::max(limits.max_rows, limits.num_partials)));
  item_of_.resize(static_cast<size_t>(limits.num_partials));
}

void AttentionPlan::Build(const ForwardBatch& batch, RowRange active, const Split& split) {
  ListRows(batch, active, split.block_size_tokens);
  splits_chunks_ = num_chunks_ <= limits_.num_partials;
  num_partials_ = 0;
  // A group of sharing rows is one item, unless that would be more than its part of the work.
  max_item_rows_ = limits_.max_rows;
  if (split.num_threads > 1) {
    const int64_t part = cost_ * split.num_kv_heads / (kItemsPerThread * split.num_threads);
    max_item_rows_ = std::max(kMinSharingRows, part / kChunkTiles);
  }
  const int64_t num_rows = std::ssize(decode_rows_);
  for (RowRange run; run.begin < num_rows; run.begin = run.end) {
    run.end = run.begin + 1;
    while (run.end < num_rows && decode_rows_[static_cast<size_t>(run.end)].shared_tiles > 0) {
      ++run.end;
    }
    AddItems(run);
  }
  std::sort(decode_items_.begin(), decode_items_.end(),
            [](const DecodeItem& a, const DecodeItem& b) {
              return a.cost != b.cost ? a.cost > b.cost : a.first_partial < b.first_partial;
            });
  if (!splits_chunks_) return;
  for (size_t item = 0; item < decode_items_.size(); ++item) {
    const DecodeItem& it = decode_items_[item];
    for (int64_t row = it.rows.begin; row < it.rows.end; ++row) {
      const int64_t entry = decode_rows_[static_cast<size_t>(row)].first_chunk + it.chunk;
      item_of_[static_cast<size_t>(entry)] = static_cast<int32_t>(item);
    }
  }
}

// The costly late tiles of a prompt come first.
void AttentionPlan::ListRows(const ForwardBatch& batch, RowRange active,
                             int32_t block_size_tokens) {
  prompt_tiles_.clear();
  decode_rows_.clear();
  decode_items_.clear();
  cost_ = 0;
  num_chunks_ = 0;
  int64_t first_row = 0;
  for (size_t index = 0; index < batch.slices.size(); ++index) {
    const SequenceSlice& slice = batch.slices[index];
    const RowRange rows{std::max(active.begin, first_row) - first_row,
                        std::min(active.end, first_row + slice.num_rows) - first_row};
    if (rows.count() == 1) {
      const int64_t position = slice.first_position + rows.begin;
      DecodeRow row{first_row + rows.begin, position, slice.block_table, 0, num_chunks_};
      if (!decode_rows_.empty() && decode_rows_.back().row + 1 == row.row) {
        row.shared_tiles = SharedTiles(decode_rows_.back(), row, block_size_tokens);
      }
      decode_rows_.push_back(row);
      num_chunks_ += NumChunks(position);
      cost_ += NumTiles(position);
    } else {
      for (int64_t end = rows.end; end > rows.begin;) {
        const int64_t odd = (end - rows.begin) % kernels::kMaxAttentionRows;
        const int64_t begin = end - (odd == 0 ? kernels::kMaxAttentionRows : odd);
        prompt_tiles_.push_back({index, first_row, {begin, end}});
        cost_ += (end - begin) * NumTiles(slice.first_position + end - 1);
        end = begin;
      }
    }
    first_row += slice.num_rows;
  }
}

// `run`: decode rows of which each shares at least its first tile with the one before.
void AttentionPlan::AddItems(RowRange run) {
  if (!splits_chunks_) {
    AddItem(run, 0, kernels::kMaxAttentionRows);
    return;
  }
  bool any_row_reaches = true;
  for (int64_t chunk = 0; any_row_reaches; ++chunk) {
    any_row_reaches = false;
    for (RowRange rows = run; rows.begin < run.end; rows.begin = rows.end) {
      const auto row_at = [this](int64_t row) { return decode_rows_[static_cast<size_t>(row)]; };
      rows.end = rows.begin + 1;
      if (NumChunks(row_at(rows.begin).position) <= chunk) continue;
      any_row_reaches = true;
      while (rows.end < run.end && row_at(rows.end).shared_tiles > chunk * kChunkTiles) ++rows.end;
      AddItem(rows, chunk, max_item_rows_);
    }
  }
}

// As one item, or as several of about the same number of rows, at most `max_rows`.
void AttentionPlan::AddItem(RowRange rows, int64_t chunk, int64_t max_rows) {
  const int64_t num_parts = (rows.count() + max_rows - 1) / max_rows;
  for (int64_t part = 0; part < num_parts; ++part) {
    DecodeItem item{{rows.begin + rows.count() * part / num_parts,
                     rows.begin + rows.count() * (part + 1) / num_parts},
                    chunk,
                    num_partials_,
                    0};
    for (int64_t row = item.rows.begin; row < item.rows.end; ++row) {
      const int64_t tiles = NumTiles(decode_rows_[static_cast<size_t>(row)].position);
      item.cost += splits_chunks_ ? std::min(tiles - chunk * kChunkTiles, kChunkTiles) : tiles;
    }
    num_partials_ += item.rows.count();
    decode_items_.push_back(item);
  }
}

}  // namespace octavo::model
