// How a step's attention is cut into items: who shares what, that every row's every chunk is in one
// item, and that the items keep all threads busy.

#include "model/attention_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/arithmetic_version.h"

namespace octavo::model {
namespace {

constexpr int64_t kChunkTokens = kernels::kAttentionChunkTokens;

// One-row slices at given positions, whose block tables a test lays out.
class DecodeBatch {
 public:
  // A row at `position` whose first `num_shared` blocks are those of the row before; the others are
  // its own.
  void Add(int64_t position, int64_t num_shared = 0) {
    std::vector<uint32_t> table(static_cast<size_t>(position / kBlock + 1));
    std::iota(table.begin(), table.end(), next_block_);
    next_block_ += static_cast<uint32_t>(table.size());
    if (num_shared > 0) std::copy_n(tables_.back().begin(), num_shared, table.begin());
    tables_.push_back(std::move(table));
    slices_.push_back({1, position, {}});
  }
  void AddPrompt(int64_t num_rows, int64_t first_position, int64_t num_shared) {
    Add(first_position + num_rows - 1, num_shared);
    slices_.back() = {num_rows, first_position, {}};
  }

  AttentionPlan Plan(int num_threads, int64_t num_partials = 1024, int32_t num_kv_heads = 3) {
    int64_t num_rows = 0;
    for (size_t i = 0; i < slices_.size(); ++i) {
      slices_[i].block_table = tables_[i];
      num_rows += slices_[i].num_rows;
    }
    AttentionPlan plan({num_rows, num_partials});
    tokens_.resize(static_cast<size_t>(num_rows));
    plan.Build({tokens_, slices_, {}}, {0, num_rows}, {kBlock, num_kv_heads, num_threads});
    return plan;
  }

  static constexpr int32_t kBlock = 16;

 private:
  std::vector<std::vector<uint32_t>> tables_;
  std::vector<SequenceSlice> slices_;
  std::vector<TokenId> tokens_;
  uint32_t next_block_ = 0;
};

std::vector<int64_t> SharedTiles(const AttentionPlan& plan) {
  std::vector<int64_t> shared;
  for (const DecodeRow& row : plan.decode_rows()) shared.push_back(row.shared_tiles);
  return shared;
}

TEST(AttentionPlanTest, OnlyWholeTilesThatBothRowsSeeAreShared) {
  DecodeBatch batch;
  batch.Add(200);
  batch.Add(200, 4);  // 64 positions: two tiles
  batch.Add(200, 3);  // 48: a tile and a half
  batch.Add(200, 1);  // half a tile
  batch.Add(200, 13);
  batch.Add(62, 4);  // the same blocks up to position 63, but it sees no more than 62
  batch.Add(63, 4);
  batch.Add(63, 4);
  EXPECT_EQ(SharedTiles(batch.Plan(1)), (std::vector<int64_t>{0, 2, 1, 0, 6, 1, 1, 2}));
}

TEST(AttentionPlanTest, APromptBetweenTwoRowsKeepsThemApart) {
  DecodeBatch batch;
  batch.Add(200);
  batch.Add(200, 8);
  batch.AddPrompt(40, 100, 6);
  batch.Add(200, 4);
  const AttentionPlan plan = batch.Plan(1);
  EXPECT_EQ(SharedTiles(plan), (std::vector<int64_t>{0, 4, 0}));

  std::vector<std::pair<int64_t, int64_t>> tiles;
  for (const PromptTile& tile : plan.prompt_tiles()) {
    EXPECT_EQ(tile.first_row, 2);
    EXPECT_EQ(tile.slice, 2u);
    tiles.emplace_back(tile.rows.begin, tile.rows.end);
  }
  EXPECT_EQ(tiles, (std::vector<std::pair<int64_t, int64_t>>{{32, 40}, {16, 32}, {0, 16}}));
}

// Each row's chunks, as often as an item holds them.
std::vector<std::vector<int>> CountChunks(const AttentionPlan& plan) {
  std::vector<std::vector<int>> counts;
  for (const DecodeRow& row : plan.decode_rows()) {
    counts.emplace_back(static_cast<size_t>(row.position / kChunkTokens + 1));
  }
  for (const DecodeItem& item : plan.decode_items()) {
    for (int64_t row = item.rows.begin; row < item.rows.end; ++row) {
      ++counts[static_cast<size_t>(row)].at(static_cast<size_t>(item.chunk));
    }
  }
  return counts;
}

TEST(AttentionPlanTest, EveryChunkOfEveryRowIsInOneItemWithAPartialOfItsOwn) {
  DecodeBatch batch;
  for (int64_t i = 0; i < 40; ++i) batch.Add(i * 37, std::min(i, i * 37 / 16));
  for (const int num_threads : {1, 2, 8}) {
    const AttentionPlan plan = batch.Plan(num_threads);
    ASSERT_TRUE(plan.splits_chunks());
    int64_t num_chunks = 0;
    for (const std::vector<int>& row : CountChunks(plan)) {
      EXPECT_EQ(row, std::vector<int>(row.size(), 1));
      num_chunks += std::ssize(row);
    }
    std::vector<int> partials(static_cast<size_t>(num_chunks));
    for (const DecodeItem& item : plan.decode_items()) {
      for (int64_t i = 0; i < item.rows.count(); ++i) {
        ++partials.at(static_cast<size_t>(item.first_partial + i));
      }
    }
    EXPECT_EQ(partials, std::vector<int>(partials.size(), 1));
    for (size_t row = 0; row < plan.decode_rows().size(); ++row) {
      for (int64_t chunk = 0; chunk * kChunkTokens <= plan.decode_rows()[row].position; ++chunk) {
        const DecodeItem& item = plan.ItemOf(row, chunk);
        EXPECT_EQ(item.chunk, chunk);
        EXPECT_TRUE(item.rows.begin <= static_cast<int64_t>(row) &&
                    static_cast<int64_t>(row) < item.rows.end);
      }
    }
  }
}

TEST(AttentionPlanTest, MoreChunksThanPartialsGiveItemsOfAllChunks) {
  DecodeBatch batch;
  for (int i = 0; i < 20; ++i) batch.Add(600, i == 0 || i == 18 ? 0 : 4);
  EXPECT_TRUE(batch.Plan(2, 60).splits_chunks());
  const AttentionPlan plan = batch.Plan(2, 59);
  EXPECT_FALSE(plan.splits_chunks());
  std::vector<int> counts(20);
  for (const DecodeItem& item : plan.decode_items()) {
    EXPECT_LE(item.rows.count(), 16);
    for (int64_t row = item.rows.begin; row < item.rows.end; ++row)
      ++counts[static_cast<size_t>(row)];
  }
  EXPECT_EQ(counts, std::vector<int>(20, 1));
}

// The load of the busiest thread, over the mean, if each takes the next item when it is free.
double Imbalance(const AttentionPlan& plan, int num_threads, int num_kv_heads) {
  std::vector<int64_t> loads(static_cast<size_t>(num_threads));
  for (const DecodeItem& item : plan.decode_items()) {
    for (int head = 0; head < num_kv_heads; ++head) {
      *std::min_element(loads.begin(), loads.end()) += item.cost;
    }
  }
  const auto total = static_cast<double>(std::accumulate(loads.begin(), loads.end(), int64_t{0}));
  return static_cast<double>(*std::max_element(loads.begin(), loads.end())) * num_threads / total;
}

TEST(AttentionPlanTest, ManySequencesKeepUpToEightThreadsBusy) {
  for (const int num_threads : {2, 3, 4, 6, 8}) {
    for (const auto& [position, num_shared] :
         {std::pair{1100, 64}, {1100, 0}, {300, 16}, {250, 12}, {90, 4}}) {
      for (const int num_rows : {16, 64, 256}) {
        DecodeBatch batch;
        for (int i = 0; i < num_rows; ++i) batch.Add(position, i == 0 ? 0 : num_shared);
        EXPECT_LE(Imbalance(batch.Plan(num_threads), num_threads, 3), num_rows < 64 ? 1.4 : 1.2)
            << num_threads << " threads, " << num_rows << " rows at " << position << ", "
            << num_shared << " blocks shared";
      }
    }
  }
}

TEST(AttentionPlanTest, AFewLongSequencesAmongShortOnesKeepEightThreadsBusy) {
  DecodeBatch batch;
  for (int i = 0; i < 10; ++i) batch.Add(i == 4 ? 16000 : 100);
  EXPECT_LE(Imbalance(batch.Plan(8), 8, 3), 1.1);
}

TEST(AttentionPlanTest, OneThreadNeverCutsAGroupOfSharingRows) {
  DecodeBatch batch;
  for (int i = 0; i < 64; ++i) batch.Add(1100, i == 0 ? 0 : 64);
  int64_t num_groups = 0;
  const AttentionPlan plan = batch.Plan(1);
  for (const DecodeItem& item : plan.decode_items()) num_groups += item.rows.count() == 64;
  EXPECT_EQ(num_groups, 4);
}

}  // namespace
}  // namespace octavo::model
