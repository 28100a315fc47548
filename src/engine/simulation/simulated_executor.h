#pragma once

// Purpose:    a StepExecutor without a model: each position stores a hash of all tokens up to it,
//             checks on every read that this chain is whole, and makes its logits from the chain.
//             A block that holds anything but the sequence's own tokens breaks the chain or changes
//             the answer.
// Ownership:  owns the slots of the pool and of the swap space.
// Threading:  one thread.
// Invariants: what was never written, or lies behind what a block was last written with, is poison.
//             The first broken rule stays in violation(). Now() counts computed rows.

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/step_executor.h"
#include "kernels/kernel_table.h"

namespace octavo::engine {

inline constexpr uint64_t kChainRoot = 0x0c7a;  // before the first token

// Of a sequence that ends with `token`, from the hash of what came before.
inline uint64_t ChainHash(uint64_t before, TokenId token) {
  uint64_t bits = before + (static_cast<uint64_t>(token) + 1) * 0x9e3779b97f4a7c15;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

inline uint64_t ChainHash(std::span<const TokenId> tokens) {
  uint64_t chain = kChainRoot;
  for (const TokenId token : tokens) chain = ChainHash(chain, token);
  return chain;
}

// The simulated model: any chain has logits of its own, in [-4, 4).
inline void FillLogits(uint64_t chain, std::span<float> logits) {
  for (size_t i = 0; i < logits.size(); ++i) {
    const uint64_t bits = ChainHash(~chain, static_cast<TokenId>(i));
    logits[i] = static_cast<float>(bits >> 48) * (8.0f / 65536.0f) - 4.0f;
  }
}

struct SimulationOptions {
  uint32_t num_blocks = 0;
  uint32_t num_swap_blocks = 0;
  int32_t block_size_tokens = 16;
  int32_t vocab_size = 32;
  int64_t max_logits_rows = 3;
  TokenId breaks_down_after = kNoToken;  // the logits after this token are not finite
};

class SimulatedExecutor : public StepExecutor {
 public:
  static constexpr double kSecondsPerRow = 1e-3;

  explicit SimulatedExecutor(const SimulationOptions& options)
      : options_(options),
        pool_(SlotsOf(options.num_blocks)),
        swap_(SlotsOf(options.num_swap_blocks)),
        num_holders_(options.num_blocks),
        logits_(static_cast<size_t>(options.max_logits_rows) *
                static_cast<size_t>(options.vocab_size)) {}

  void CopyBlocks(std::span<const kvcache::BlockCopy> copies) override {
    for (const kvcache::BlockCopy& copy : copies) {
      const std::span<const Slot> source = Block(pool_, copy.source.value());
      const std::span<Slot> destination = Block(pool_, copy.destination.value());
      const auto num_tokens = static_cast<size_t>(copy.num_tokens);
      std::ranges::copy(source.first(num_tokens), destination.begin());
      std::ranges::fill(destination.subspan(num_tokens), Slot());
    }
    num_copies_ += copies.size();
  }

  void SwapOut(std::span<const BlockMove> moves) override {
    for (const BlockMove& move : moves) {
      std::ranges::copy(Block(pool_, move.pool_block), Block(swap_, move.swap_block).begin());
    }
    num_swapped_out_ += moves.size();
  }

  // What is read leaves the swap space, so that reading it again is seen.
  void SwapIn(std::span<const BlockMove> moves) override {
    for (const BlockMove& move : moves) {
      std::ranges::copy(Block(swap_, move.swap_block), Block(pool_, move.pool_block).begin());
      std::ranges::fill(Block(swap_, move.swap_block), Slot());
    }
  }

  void Forward(const model::ForwardBatch& batch) override {
    CountHolders(batch);
    row_chains_.clear();
    for (const model::SequenceSlice& slice : batch.slices) ComputeSlice(batch, slice);
    Require(row_chains_.size() == batch.tokens.size(), "the slices cover all rows");
    output_chains_.clear();
    int32_t previous = -1;
    for (const int32_t row : batch.output_rows) {
      Require(row > previous && static_cast<size_t>(row) < row_chains_.size(),
              "output rows ascend and exist");
      previous = row;
      const auto index = static_cast<size_t>(row);
      output_chains_.push_back({row_chains_[index], batch.tokens[index]});
    }
    num_rows_ += batch.tokens.size();
    seconds_ += kSecondsPerRow * static_cast<double>(batch.tokens.size());
  }

  std::span<float> Logits(int64_t first, int64_t count) override {
    Require(count >= 1 && count <= options_.max_logits_rows &&
                static_cast<size_t>(first + count) <= output_chains_.size(),
            "as many rows of logits are asked for as there are");
    const auto vocab_size = static_cast<size_t>(options_.vocab_size);
    const auto all = std::span(logits_).first(static_cast<size_t>(count) * vocab_size);
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      FillLogitsAfter(output_chains_[static_cast<size_t>(first) + i],
                      all.subspan(i * vocab_size, vocab_size));
    }
    return all;
  }

  int64_t max_logits_rows() const override { return options_.max_logits_rows; }
  int32_t vocab_size() const override { return options_.vocab_size; }
  const kernels::RowOpKernels& row_ops() const {
    return kernels::FindKernels(kernels::Isa::kReference)->rows;
  }
  double Now() const override { return seconds_; }

  // Lets time pass in which nothing is computed.
  void Wait(double seconds) { seconds_ += seconds; }
  // The first rule that was broken, or empty.
  const std::string& violation() const { return violation_; }
  uint64_t num_rows() const { return num_rows_; }
  uint64_t num_copies() const { return num_copies_; }
  uint64_t num_swapped_out() const { return num_swapped_out_; }

 private:
  struct Slot {
    uint64_t chain = 0;
    TokenId token = kNoToken;  // poison
  };
  struct OutputRow {
    uint64_t chain = 0;
    TokenId token = kNoToken;
  };

  std::vector<Slot> SlotsOf(uint32_t num_blocks) const {
    return std::vector<Slot>(size_t{num_blocks} * static_cast<size_t>(options_.block_size_tokens));
  }

  std::span<Slot> Block(std::vector<Slot>& slots, uint32_t block) {
    const auto size = static_cast<size_t>(options_.block_size_tokens);
    return std::span(slots).subspan(block * size, size);
  }

  void Require(bool holds, const char* rule) {
    if (!holds && violation_.empty()) violation_ = rule;
  }

  // In how many of the step's tables each block is.
  void CountHolders(const model::ForwardBatch& batch) {
    std::ranges::fill(num_holders_, 0u);
    for (const model::SequenceSlice& slice : batch.slices) {
      for (const uint32_t block : slice.block_table) {
        Require(block < options_.num_blocks, "a table names blocks of the pool");
        ++num_holders_[block];
      }
    }
  }

  void ComputeSlice(const model::ForwardBatch& batch, const model::SequenceSlice& slice) {
    const auto block_size = static_cast<size_t>(options_.block_size_tokens);
    const auto begin = static_cast<size_t>(slice.first_position);
    const auto num_rows = static_cast<size_t>(slice.num_rows);
    Require(slice.num_rows >= 1, "a slice has rows");
    Require(begin + num_rows <= slice.block_table.size() * block_size,
            "a table reaches its last position");
    Require(row_chains_.size() + num_rows <= batch.tokens.size(), "every row has a token");
    if (!violation_.empty()) {
      row_chains_.resize(row_chains_.size() + num_rows);
      return;
    }
    uint64_t chain = ReadChain(slice);
    for (size_t position = begin; position < begin + num_rows; ++position) {
      const uint32_t block = slice.block_table[position / block_size];
      Require(num_holders_[block] == 1, "a block that is written is in one table only");
      const TokenId token = batch.tokens[row_chains_.size()];
      chain = ChainHash(chain, token);
      row_chains_.push_back(chain);
      const std::span<Slot> slots = Block(pool_, block).subspan(position % block_size);
      slots.front() = {chain, token};
      std::ranges::fill(slots.subspan(1), Slot());
    }
  }

  // Visits every position before the slice's first row.
  uint64_t ReadChain(const model::SequenceSlice& slice) {
    const auto block_size = static_cast<size_t>(options_.block_size_tokens);
    uint64_t chain = kChainRoot;
    for (size_t position = 0; position < static_cast<size_t>(slice.first_position); ++position) {
      const uint32_t block = slice.block_table[position / block_size];
      const Slot& slot = Block(pool_, block)[position % block_size];
      const bool follows = slot.token != kNoToken && slot.chain == ChainHash(chain, slot.token);
      if (!follows && violation_.empty()) {
        violation_ =
            fmt::format("position {} of a sequence of {} tokens, in block {}, {} what is before it",
                        position, slice.first_position + slice.num_rows, block,
                        slot.token == kNoToken ? "was not written after" : "does not follow");
      }
      chain = slot.chain;
    }
    return chain;
  }

  void FillLogitsAfter(const OutputRow& row, std::span<float> logits) const {
    FillLogits(row.chain, logits);
    if (row.token == options_.breaks_down_after) {
      logits.front() = std::numeric_limits<float>::quiet_NaN();
    }
  }

  const SimulationOptions options_;
  std::vector<Slot> pool_;             // [num_blocks, block_size_tokens]
  std::vector<Slot> swap_;             // [num_swap_blocks, block_size_tokens]
  std::vector<uint32_t> num_holders_;  // [num_blocks]
  std::vector<uint64_t> row_chains_;   // of the last step
  std::vector<OutputRow> output_chains_;
  std::vector<float> logits_;  // [max_logits_rows, vocab_size]
  std::string violation_;
  double seconds_ = 0.0;
  uint64_t num_rows_ = 0;
  uint64_t num_copies_ = 0;
  uint64_t num_swapped_out_ = 0;
};

}  // namespace octavo::engine
