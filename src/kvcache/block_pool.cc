#include "octavo/kvcache/block_pool.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "base/check.h"
#include "octavo/kvcache/block_table.h"

namespace octavo::kvcache {

BlockRef& BlockRef::operator=(BlockRef&& other) noexcept {
  if (this != &other) {
    Reset();
    pool_ = std::exchange(other.pool_, nullptr);
    id_ = other.id_;
  }
  return *this;
}

BlockId BlockRef::id() const {
  OCTAVO_DCHECK(pool_ != nullptr, "this BlockRef holds no block");
  return id_;
}

bool BlockRef::is_shared() const {
  OCTAVO_DCHECK(pool_ != nullptr, "this BlockRef holds no block");
  return pool_->ref_count(id_) > 1;
}

BlockRef BlockRef::Share() const {
  OCTAVO_CHECK(pool_ != nullptr, "this BlockRef holds no block");
  pool_->Retain(id_);
  return BlockRef(pool_, id_);
}

void BlockRef::GiveBack() { std::exchange(pool_, nullptr)->Drop(id_); }

BlockPool::BlockPool(uint32_t num_blocks) {
  OCTAVO_CHECK(num_blocks < kNoBlock, "the highest block id ends lists");
  state_.blocks.resize(num_blocks);
  for (uint32_t block = num_blocks; block-- > 0;) PushFree(block);  // 0 ends up first
}

BlockPool::~BlockPool() {
  OCTAVO_CHECK(num_in_use() == 0,
               fmt::format("{} blocks are still referenced when their pool dies", num_in_use()));
}

void BlockPool::SetRecycler(BlockRecycler* recycler) {
  OCTAVO_CHECK(recycler_ == nullptr, "a pool has one recycler for good");
  recycler_ = recycler;
}

std::optional<BlockRef> BlockPool::Allocate() {
  if (state_.first_free != kNoBlock) return TakeFree(BlockId(state_.first_free));
  const std::optional<BlockId> evicted = TakeFromRecycler();
  if (!evicted) return std::nullopt;
  Retain(*evicted);
  return BlockRef(this, *evicted);
}

std::optional<BlockId> BlockPool::TakeFromRecycler() {
  const uint32_t block = recycler_ == nullptr ? kNoBlock : recycler_->Evict();
  if (block == kNoBlock) return std::nullopt;
  OCTAVO_CHECK(std::exchange(state_.blocks[block].is_evictable, false),
               "the recycler gives up a block that it does not keep");
  --state_.num_evictable;
  return BlockId(block);
}

BlockRef BlockPool::Reference(BlockId id) {
  BlockPoolState::Block& block = state_.blocks[id.value()];
  if (block.ref_count == 0) {
    OCTAVO_CHECK(std::exchange(block.is_evictable, false), "a free block has no content");
    --state_.num_evictable;
  }
  Retain(id);
  return BlockRef(this, id);
}

bool BlockPool::EvictToFreeList() {
  const std::optional<BlockId> evicted = TakeFromRecycler();
  if (evicted) PushFree(evicted->value());
  return evicted.has_value();
}

uint32_t BlockPool::num_available() const {
  return num_free() + (recycler_ == nullptr ? 0 : recycler_->num_recyclable());
}

std::optional<std::vector<BlockRef>> BlockPool::AllocateContiguous(uint32_t run_length) {
  OCTAVO_DCHECK(run_length >= 1, "a run has at least one block");
  if (run_length > num_free()) return std::nullopt;
  uint32_t num_found = 0;
  for (uint32_t block = 0; block < num_blocks(); ++block) {
    num_found = block_state(BlockId(block)) == BlockState::kFree ? num_found + 1 : 0;
    if (num_found < run_length) continue;
    std::vector<BlockRef> run;
    run.reserve(run_length);
    for (uint32_t id = block + 1 - run_length; id <= block; ++id) {
      run.push_back(TakeFree(BlockId(id)));
    }
    return run;
  }
  return std::nullopt;
}

uint32_t BlockPool::ref_count(BlockId id) const {
  OCTAVO_CHECK(id.value() < num_blocks(), "this block is not of this pool");
  return state_.blocks[id.value()].ref_count;
}

BlockState BlockPool::block_state(BlockId id) const {
  if (ref_count(id) > 0) return BlockState::kInUse;
  return state_.blocks[id.value()].is_evictable ? BlockState::kEvictable : BlockState::kFree;
}

IntegrityReport BlockPool::CheckIntegrity() const { return AuditPool(state_); }

IntegrityReport BlockPool::CheckIntegrity(std::span<const BlockTable* const> tables) const {
  IntegrityReport report = CheckIntegrity();
  std::vector<std::span<const uint32_t>> entries;
  for (const BlockTable* table : tables) {
    if (table->pool() == this) {
      entries.push_back(table->block_ids());
    } else {
      report.Add("a block table is of another pool");
    }
  }
  report.Append(AuditReferences(state_, entries));
  return report;
}

void BlockPool::Retain(BlockId id) {
  BlockPoolState::Block& block = state_.blocks[id.value()];
  OCTAVO_CHECK(block.ref_count < std::numeric_limits<uint32_t>::max(), "too many references");
  ++block.ref_count;
}

void BlockPool::Drop(BlockId id) {
  BlockPoolState::Block& block = state_.blocks[id.value()];
  OCTAVO_CHECK(block.ref_count > 0, "a free block is dropped");
  if (--block.ref_count > 0) return;
  if (recycler_ != nullptr && recycler_->Keep(id)) {
    block.is_evictable = true;
    ++state_.num_evictable;
  } else {
    PushFree(id.value());
  }
}

BlockRef BlockPool::TakeFree(BlockId id) {
  UnlinkFree(id.value());
  Retain(id);
  return BlockRef(this, id);
}

void BlockPool::PushFree(uint32_t block) {
  state_.blocks[block].next_free = state_.first_free;
  if (state_.first_free != kNoBlock) state_.blocks[state_.first_free].prev_free = block;
  state_.first_free = block;
  ++state_.num_free;
}

void BlockPool::UnlinkFree(uint32_t block) {
  const uint32_t previous = std::exchange(state_.blocks[block].prev_free, kNoBlock);
  const uint32_t next = std::exchange(state_.blocks[block].next_free, kNoBlock);
  if (previous == kNoBlock) {
    state_.first_free = next;
  } else {
    state_.blocks[previous].next_free = next;
  }
  if (next != kNoBlock) state_.blocks[next].prev_free = previous;
  --state_.num_free;
}

}  // namespace octavo::kvcache
