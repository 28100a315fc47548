#include "octavo/kvcache/kv_cache_manager.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/checked_math.h"
#include "kvcache/cache_audit.h"
#include "kvcache/prefix_cache.h"
#include "kvcache/prefix_explanation.h"
#include "octavo/kvcache/kv_cache_spec.h"

namespace octavo::kvcache {

class KvCacheManager::Impl {
 public:
  explicit Impl(const KvCacheOptions& options);

  CachedSequence MakeSequence(uint32_t root);
  CachedSequence Fork(const CachedSequence& sequence);
  PrefixMatch Match(std::string_view root, std::span<const int32_t> tokens) const;
  bool Acquire(CachedSequence& sequence, std::span<const int32_t> tokens,
               std::vector<BlockCopy>* copies);
  bool Reserve(BlockTable& table, int64_t num_tokens, std::vector<BlockCopy>* copies);
  uint32_t NumBlocksToReserve(const BlockTable& table, int64_t num_tokens) const;
  void Commit(CachedSequence& sequence, std::span<const int32_t> tokens, int64_t num_computed);
  void Reset();
  KvCacheStats Stats() const;
  IntegrityReport CheckIntegrity() const;
  IntegrityReport CheckIntegrity(std::span<const CachedSequence* const> sequences) const;

  // The sequence's table. REQUIRES: it is one of this manager's.
  BlockTable& TableOf(CachedSequence& sequence) const;
  const BlockTable& TableOf(const CachedSequence& sequence) const;

  KvCacheOptions options;
  BlockPool pool;
  PrefixCache cache;

 private:
  BlockRef CopyBlock(uint32_t source, int32_t num_tokens, std::vector<BlockCopy>* copies);
  void CommitBlock(CachedSequence& sequence, size_t index, std::span<const int32_t> content);

  std::vector<uint32_t> path_;  // scratch: the whole blocks that were found
  uint64_t num_query_tokens_ = 0;
  uint64_t num_hit_tokens_ = 0;
  uint64_t num_copies_ = 0;
};

KvCacheManager::Impl::Impl(const KvCacheOptions& given)
    : options(given), pool(given.num_blocks), cache(&pool, given) {
  OCTAVO_CHECK(IsBlockSize(given.block_size_tokens), "not a block size");
  path_.reserve(given.num_blocks);
}

BlockTable& KvCacheManager::Impl::TableOf(CachedSequence& sequence) const {
  OCTAVO_CHECK(sequence.cache_ == &cache, "the sequence is of another manager, or of none");
  return *sequence.table_;
}

const BlockTable& KvCacheManager::Impl::TableOf(const CachedSequence& sequence) const {
  OCTAVO_CHECK(sequence.cache_ == &cache, "the sequence is of another manager, or of none");
  return *sequence.table_;
}

CachedSequence KvCacheManager::Impl::MakeSequence(uint32_t root) {
  CachedSequence sequence;
  sequence.cache_ = &cache;
  sequence.root_ = root;
  sequence.table_.emplace(&pool, options.block_size_tokens, options.max_blocks_per_sequence);
  return sequence;
}

CachedSequence KvCacheManager::Impl::Fork(const CachedSequence& sequence) {
  const BlockTable& table = TableOf(sequence);
  cache.RetainRoot(sequence.root_);
  CachedSequence fork = MakeSequence(sequence.root_);
  const int64_t num_blocks =
      base::CeilDivide(table.num_tokens(), int64_t{options.block_size_tokens});
  for (size_t i = 0; i < static_cast<size_t>(num_blocks); ++i) {
    fork.table_->Append(table.block(i).Share());
    cache.CountReuse(table.block_ids()[i]);
  }
  fork.table_->Advance(table.num_tokens());
  return fork;
}

PrefixMatch KvCacheManager::Impl::Match(std::string_view root,
                                        std::span<const int32_t> tokens) const {
  PrefixMatch match;
  if (!cache.is_enabled()) return match;
  const PrefixTree::Closest rest =
      cache.Walk(cache.tree().FindRoot(root), tokens, [&](uint32_t block) {
        ++match.num_shared_blocks;
        if (cache.IsRecyclable(block)) ++match.num_idle_blocks;
      });
  match.num_tokens = int64_t{match.num_shared_blocks} * options.block_size_tokens + rest.num_tokens;
  match.copies_block = rest.block != kNoBlock && !cache.CanTakeOver(rest);
  return match;
}

bool KvCacheManager::Impl::Acquire(CachedSequence& sequence, std::span<const int32_t> tokens,
                                   std::vector<BlockCopy>* copies) {
  BlockTable& table = TableOf(sequence);
  OCTAVO_CHECK(table.num_blocks() == 0, "a sequence acquires a prefix while it is empty");
  if (!cache.is_enabled()) return true;
  path_.clear();
  const PrefixTree::Closest rest =
      cache.Walk(sequence.root_, tokens, [&](uint32_t block) { path_.push_back(block); });
  const bool takes_over = rest.block != kNoBlock && cache.CanTakeOver(rest);
  const bool copies_block = rest.block != kNoBlock && !takes_over;
  // The copy's source is as available as the blocks before it: if they are all that is left, then
  // it is left as well.
  if (copies_block && pool.num_available() == 0) return false;

  for (const uint32_t block : path_) table.Append(cache.Hit(block));
  if (takes_over) table.Append(cache.Hit(rest.block));
  if (copies_block) {
    cache.Hit(rest.block).Reset();  // used now: it is not the first to give way
    table.Append(CopyBlock(rest.block, rest.num_tokens, copies));
  }
  table.Advance(static_cast<int64_t>(path_.size()) * options.block_size_tokens + rest.num_tokens);
  num_query_tokens_ += tokens.size();
  num_hit_tokens_ += static_cast<uint64_t>(table.num_tokens());
  return true;
}

// A block that will hold the first num_tokens of `source`. REQUIRES: one is available.
BlockRef KvCacheManager::Impl::CopyBlock(uint32_t source, int32_t num_tokens,
                                         std::vector<BlockCopy>* copies) {
  std::optional<BlockRef> block = pool.Allocate();
  OCTAVO_CHECK(block.has_value(), "a block is available");
  // When the source itself was the last to give way, its tokens are where they should be.
  if (block->id().value() != source) {
    copies->push_back({BlockId(source), block->id(), num_tokens});
    ++num_copies_;
  }
  return std::move(*block);
}

bool KvCacheManager::Impl::Reserve(BlockTable& table, int64_t num_tokens,
                                   std::vector<BlockCopy>* copies) {
  if (num_tokens <= table.num_tokens()) return true;
  if (NumBlocksToReserve(table, num_tokens) > pool.num_available()) return false;
  const auto offset = static_cast<int32_t>(table.num_tokens() % options.block_size_tokens);
  if (offset > 0) {
    const auto index = static_cast<size_t>(table.num_tokens() / options.block_size_tokens);
    const uint32_t tail = table.block_ids()[index];
    if (cache.MustCopyTail(table)) {
      table.Replace(index, CopyBlock(tail, offset, copies));
    } else {
      cache.PrepareWrite(tail, offset);
    }
  }
  OCTAVO_CHECK(table.EnsureCapacity(num_tokens), "as many blocks are available");
  return true;
}

uint32_t KvCacheManager::Impl::NumBlocksToReserve(const BlockTable& table,
                                                  int64_t num_tokens) const {
  if (num_tokens <= table.num_tokens()) return 0;
  const int64_t needed = base::CeilDivide(num_tokens, int64_t{options.block_size_tokens});
  const int64_t missing = std::max<int64_t>(needed - static_cast<int64_t>(table.num_blocks()), 0);
  return static_cast<uint32_t>(missing) + (cache.MustCopyTail(table) ? 1 : 0);
}

void KvCacheManager::Impl::Commit(CachedSequence& sequence, std::span<const int32_t> tokens,
                                  int64_t num_computed) {
  BlockTable& table = TableOf(sequence);
  OCTAVO_CHECK(num_computed >= table.num_tokens() && num_computed <= table.capacity_tokens(),
               "what is committed was reserved");
  OCTAVO_CHECK(static_cast<int64_t>(tokens.size()) >= num_computed, "every token is known");
  const int64_t block_size = options.block_size_tokens;
  int64_t num_done = table.num_tokens();
  while (num_done < num_computed) {
    const int64_t first = num_done / block_size * block_size;
    const int64_t end = std::min(first + block_size, num_computed);
    const auto index = static_cast<size_t>(first / block_size);
    OCTAVO_CHECK(!table.block(index).is_shared(), "a block is written by its only user");
    if (cache.is_enabled()) {
      CommitBlock(sequence, index,
                  tokens.subspan(static_cast<size_t>(first), static_cast<size_t>(end - first)));
    }
    table.Advance(end - num_done);
    num_done = end;
  }
}

void KvCacheManager::Impl::CommitBlock(CachedSequence& sequence, size_t index,
                                       std::span<const int32_t> content) {
  BlockTable& table = *sequence.table_;
  const uint32_t block = table.block_ids()[index];
  const ParentId parent =
      index == 0 ? ParentOfRoot(sequence.root_) : ParentOfBlock(table.block_ids()[index - 1]);
  const uint32_t known = cache.Publish(block, parent, content);
  if (known != block) table.Replace(index, cache.Hit(known));
}

void KvCacheManager::Impl::Reset() {
  cache.EndAllPins();
  while (cache.EvictToFreeList()) {
  }
}

KvCacheStats KvCacheManager::Impl::Stats() const {
  KvCacheStats stats;
  cache.AddTo(stats);
  stats.num_blocks = pool.num_blocks();
  stats.num_free_blocks = pool.num_free();
  stats.num_blocks_in_use = pool.num_in_use();
  stats.num_query_tokens = num_query_tokens_;
  stats.num_hit_tokens = num_hit_tokens_;
  stats.num_copies = num_copies_;
  return stats;
}

IntegrityReport KvCacheManager::Impl::CheckIntegrity() const {
  IntegrityReport report = pool.CheckIntegrity();
  if (!cache.is_enabled()) return report;
  report.Append(AuditTree(pool.state(), cache.tree().state()));
  report.Append(AuditEvictionOrder(pool.state(), cache.tree().state(), cache.policy().state(),
                                   cache.pins().state()));
  report.Append(AuditPins(cache.tree().state(), cache.pins().state()));
  return report;
}

IntegrityReport KvCacheManager::Impl::CheckIntegrity(
    std::span<const CachedSequence* const> sequences) const {
  IntegrityReport report = CheckIntegrity();
  std::vector<std::span<const uint32_t>> tables;
  for (const CachedSequence* sequence : sequences) {
    if (sequence->cache_ == nullptr) continue;
    if (sequence->cache_ != &cache) {
      report.Add("a sequence is of another manager");
      continue;
    }
    tables.push_back(sequence->block_ids());
    if (!cache.is_enabled()) continue;
    report.Append(AuditTable(cache.tree().state(), sequence->root_, sequence->block_ids(),
                             sequence->num_tokens()));
  }
  report.Append(AuditReferences(pool.state(), tables));
  return report;
}

namespace {

std::span<const int32_t> First(std::span<const int32_t> tokens, int64_t max_tokens) {
  const auto limit = static_cast<size_t>(std::max<int64_t>(max_tokens, 0));
  return tokens.first(std::min(limit, tokens.size()));
}

}  // namespace

KvCacheManager::KvCacheManager(const KvCacheOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}

KvCacheManager::~KvCacheManager() {
  OCTAVO_CHECK(impl_->cache.num_sequences() == 0, "a manager outlives its sequences");
}

void KvCacheManager::SetNow(int64_t now_ms) { impl_->cache.SetNow(now_ms); }

CachedSequence KvCacheManager::NewSequence(std::string_view root) {
  return impl_->MakeSequence(impl_->cache.RetainRoot(root));
}

PrefixMatch KvCacheManager::Match(std::string_view root, std::span<const int32_t> tokens,
                                  int64_t max_tokens) const {
  return impl_->Match(root, First(tokens, max_tokens));
}

bool KvCacheManager::Acquire(CachedSequence& sequence, std::span<const int32_t> tokens,
                             int64_t max_tokens, std::vector<BlockCopy>* copies) {
  return impl_->Acquire(sequence, First(tokens, max_tokens), copies);
}

bool KvCacheManager::Reserve(CachedSequence& sequence, int64_t num_tokens,
                             std::vector<BlockCopy>* copies) {
  return impl_->Reserve(impl_->TableOf(sequence), num_tokens, copies);
}

uint32_t KvCacheManager::NumBlocksToReserve(const CachedSequence& sequence,
                                            int64_t num_tokens) const {
  return impl_->NumBlocksToReserve(impl_->TableOf(sequence), num_tokens);
}

void KvCacheManager::Commit(CachedSequence& sequence, std::span<const int32_t> tokens,
                            int64_t num_computed) {
  impl_->Commit(sequence, tokens, num_computed);
}

CachedSequence KvCacheManager::Fork(const CachedSequence& sequence) {
  return impl_->Fork(sequence);
}

void KvCacheManager::Truncate(CachedSequence& sequence, int64_t num_tokens) {
  impl_->TableOf(sequence).Truncate(num_tokens);
}

bool KvCacheManager::ReserveContiguous(CachedSequence& sequence, uint32_t num_blocks) {
  BlockTable& table = impl_->TableOf(sequence);
  OCTAVO_CHECK(table.num_blocks() == 0, "a run is reserved for an empty sequence");
  OCTAVO_CHECK(!impl_->cache.is_enabled(), "runs and cached content do not go together");
  auto run = impl_->pool.AllocateContiguous(num_blocks);
  if (!run) return false;
  for (BlockRef& block : *run) table.Append(std::move(block));
  return true;
}

int64_t KvCacheManager::Pin(std::string_view root, std::span<const int32_t> tokens, int64_t ttl_ms,
                            PinId* pin) {
  if (!impl_->cache.is_enabled()) return 0;
  return impl_->cache.Pin(impl_->cache.tree().FindRoot(root), tokens, ttl_ms, pin);
}

bool KvCacheManager::Unpin(PinId pin) { return impl_->cache.Unpin(pin); }

void KvCacheManager::YieldPins(uint32_t num_blocks) { impl_->cache.YieldPins(num_blocks); }

void KvCacheManager::Reset() { impl_->Reset(); }

int32_t KvCacheManager::block_size_tokens() const { return impl_->options.block_size_tokens; }

uint32_t KvCacheManager::num_blocks() const { return impl_->pool.num_blocks(); }

uint32_t KvCacheManager::num_available_blocks() const { return impl_->pool.num_available(); }

KvCacheStats KvCacheManager::stats() const { return impl_->Stats(); }

std::vector<BlockExplanation> KvCacheManager::Explain(std::string_view root,
                                                      std::span<const int32_t> tokens) const {
  return ExplainPrefix(impl_->cache, impl_->cache.tree().FindRoot(root),
                       PrefixTree::HashOfKey(root), tokens);
}

IntegrityReport KvCacheManager::CheckIntegrity(
    std::span<const CachedSequence* const> sequences) const {
  return impl_->CheckIntegrity(sequences);
}

IntegrityReport KvCacheManager::CheckIntegrity() const { return impl_->CheckIntegrity(); }

}  // namespace octavo::kvcache
