#include "octavo/kvcache/block_table.h"

#include <utility>

#include "base/check.h"
#include "base/checked_math.h"
#include "octavo/kvcache/kv_cache_spec.h"

namespace octavo::kvcache {

BlockTable::BlockTable(BlockPool* pool, int32_t block_size_tokens, size_t max_blocks)
    : pool_(pool), block_size_tokens_(block_size_tokens) {
  OCTAVO_CHECK(pool != nullptr, "a block table has a pool");
  OCTAVO_CHECK(IsBlockSize(block_size_tokens), "a block holds 8, 16, 32, 64, 128 or 256 tokens");
  refs_.reserve(max_blocks);
  ids_.reserve(max_blocks);
}

BlockTable::~BlockTable() { Truncate(0); }

BlockTable::BlockTable(BlockTable&& other) noexcept
    : pool_(other.pool_),
      block_size_tokens_(other.block_size_tokens_),
      num_tokens_(std::exchange(other.num_tokens_, 0)),
      refs_(std::exchange(other.refs_, {})),
      ids_(std::exchange(other.ids_, {})) {}

BlockTable& BlockTable::operator=(BlockTable&& other) noexcept {
  if (this != &other) {
    Truncate(0);
    pool_ = other.pool_;
    block_size_tokens_ = other.block_size_tokens_;
    num_tokens_ = std::exchange(other.num_tokens_, 0);
    refs_ = std::exchange(other.refs_, {});
    ids_ = std::exchange(other.ids_, {});
  }
  return *this;
}

void BlockTable::Append(BlockRef block) {
  OCTAVO_CHECK(block.pool_ == pool_, "the block is of another pool, or none");
  ids_.push_back(block.id().value());
  refs_.push_back(std::move(block));
}

void BlockTable::Replace(size_t index, BlockRef block) {
  OCTAVO_CHECK(index < refs_.size(), "this logical block is not in the table");
  OCTAVO_CHECK(block.pool_ == pool_, "the block is of another pool, or none");
  ids_[index] = block.id().value();
  refs_[index] = std::move(block);
}

bool BlockTable::EnsureCapacity(int64_t num_tokens) {
  OCTAVO_DCHECK(num_tokens >= 0, "a token count is not negative");
  const auto needed =
      static_cast<size_t>(base::CeilDivide(num_tokens, int64_t{block_size_tokens_}));
  if (needed <= num_blocks()) return true;
  if (needed - num_blocks() > pool_->num_available()) return false;
  while (num_blocks() < needed) Append(*pool_->Allocate());
  return true;
}

void BlockTable::Advance(int64_t num_tokens) {
  OCTAVO_CHECK(num_tokens >= 0 && num_tokens <= capacity_tokens() - num_tokens_,
               "the tokens do not fit the blocks of this table");
  num_tokens_ += num_tokens;
}

void BlockTable::Truncate(int64_t num_tokens) {
  OCTAVO_CHECK(num_tokens >= 0 && num_tokens <= num_tokens_,
               "a table is truncated to a length that it has");
  const auto kept = static_cast<size_t>(base::CeilDivide(num_tokens, int64_t{block_size_tokens_}));
  while (num_blocks() > kept) PopBack();
  num_tokens_ = num_tokens;
}

const BlockRef& BlockTable::block(size_t index) const {
  OCTAVO_CHECK(index < refs_.size(), "this logical block is not in the table");
  return refs_[index];
}

void BlockTable::PopBack() {
  ids_.pop_back();
  refs_.pop_back();
}

}  // namespace octavo::kvcache
