#include "engine/model_executor.h"

#include <chrono>

#include "base/check.h"

namespace octavo::engine {

void ModelExecutor::CopyBlocks(std::span<const kvcache::BlockCopy> copies) {
  // Whole blocks: what lies after the tokens that count is overwritten before it is read.
  for (const kvcache::BlockCopy& copy : copies) store_.CopyBlock(copy.source, copy.destination);
}

void ModelExecutor::SwapOut(std::span<const BlockMove> moves) {
  OCTAVO_CHECK(swap_ != nullptr, "blocks are swapped into a swap space");
  for (const BlockMove& move : moves) {
    kvstore::CopyBlockBetween(store_, kvcache::BlockId(move.pool_block), *swap_,
                              kvcache::BlockId(move.swap_block));
  }
}

void ModelExecutor::SwapIn(std::span<const BlockMove> moves) {
  OCTAVO_CHECK(swap_ != nullptr, "blocks are swapped into a swap space");
  for (const BlockMove& move : moves) {
    kvstore::CopyBlockBetween(*swap_, kvcache::BlockId(move.swap_block), store_,
                              kvcache::BlockId(move.pool_block));
  }
}

std::span<float> ModelExecutor::Logits(int64_t first, int64_t count) {
  const auto size = static_cast<size_t>(count) * static_cast<size_t>(vocab_size());
  model_.Logits(first, count, logits_.data());
  return logits_.first(size);
}

double ModelExecutor::Now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace octavo::engine
