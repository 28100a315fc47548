#pragma once

// Purpose:    how one step's attention is cut into items of work, the same for every layer: tiles
//             of prompt rows, and for the slices of one row (decoding sequences) groups of rows
//             that visit the K and V that they share together.
// Ownership:  owns its lists; borrows the batch's block tables while they are used.
// Threading:  Build is called by one thread; then read-only.
// Invariants: depends on positions and block tables alone; nothing is allocated after construction.
//             What is an item changes no result (arithmetic.md, A8).

#include <cstdint>
#include <span>
#include <vector>

#include "model/forward_batch.h"

namespace octavo::model {

struct RowRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t count() const { return end - begin; }
};

// Up to kMaxAttentionRows rows of one slice, with all that they see.
struct PromptTile {
  size_t slice;
  int64_t first_row;  // the slice's first row in the batch
  RowRange rows;      // counted from it
};

// The only row of its slice that is to be computed.
struct DecodeRow {
  int64_t row;  // in the batch
  int64_t position;
  std::span<const uint32_t> block_table;
  // Leading whole tiles whose blocks, and the sight of them, it shares with the decode row before;
  // 0 unless the two are neighbours in the batch.
  int64_t shared_tiles;
  int64_t first_chunk;  // of its chunks in AttentionPlan::item_of
};

// Neighbouring decode rows, with one chunk of what they see or with all chunks.
struct DecodeItem {
  RowRange rows;          // in AttentionPlan::decode_rows
  int64_t chunk;          // unused unless splits_chunks
  int64_t first_partial;  // the item's first partial, of one for each of its rows
  int64_t cost;           // tiles times rows
};

class AttentionPlan {
 public:
  struct Limits {
    int64_t max_rows = 0;      // tokens per step
    int64_t num_partials = 0;  // chunks of decode rows that can be kept until they are folded
  };
  struct Split {
    int32_t block_size_tokens = 0;
    int32_t num_kv_heads = 0;
    int num_threads = 0;
  };

  explicit AttentionPlan(const Limits& limits);

  // The items of the rows [active.begin, active.end) of `batch`, the costly ones first.
  void Build(const ForwardBatch& batch, RowRange active, const Split& split);

  std::span<const PromptTile> prompt_tiles() const { return prompt_tiles_; }
  std::span<const DecodeRow> decode_rows() const { return decode_rows_; }
  std::span<const DecodeItem> decode_items() const { return decode_items_; }
  // Whether each decode item is one chunk, to be folded when all are there; else it is all chunks.
  bool splits_chunks() const { return splits_chunks_; }
  // The item that holds chunk `chunk` of decode row `index`. REQUIRES: splits_chunks.
  const DecodeItem& ItemOf(size_t index, int64_t chunk) const {
    const int64_t entry = decode_rows_[index].first_chunk + chunk;
    return decode_items_[static_cast<size_t>(item_of_[static_cast<size_t>(entry)])];
  }

 private:
  void ListRows(const ForwardBatch& batch, RowRange active, int32_t block_size_tokens);
  void AddItems(RowRange run);
  void AddItem(RowRange rows, int64_t chunk, int64_t max_rows);

  Limits limits_;
  std::vector<PromptTile> prompt_tiles_;
  std::vector<DecodeRow> decode_rows_;
  std::vector<DecodeItem> decode_items_;
  std::vector<int32_t> item_of_;  // [chunks of all decode rows]
  bool splits_chunks_ = false;
  int64_t cost_ = 0;          // of the whole step, for one kv head: tiles times rows
  int64_t num_chunks_ = 0;    // of all decode rows
  int64_t num_partials_ = 0;  // given to items so far
  int64_t max_item_rows_ = 0;
};

}  // namespace octavo::model
