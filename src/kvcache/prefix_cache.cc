#include "kvcache/prefix_cache.h"

#include <limits>
#include <optional>

#include "base/check.h"

namespace octavo::kvcache {
namespace {

// Evictions that are remembered, in pools' sizes.
constexpr size_t kHistoryFactor = 2;

}  // namespace

PrefixCache::PrefixCache(BlockPool* pool, const KvCacheOptions& options)
    : pool_(pool),
      is_enabled_(options.enable_prefix_caching),
      max_pinned_blocks_(static_cast<uint32_t>(options.max_pinned_share * options.num_blocks)),
      tree_(is_enabled_ ? options.num_blocks : 0, options.block_size_tokens),
      policy_(MakeEvictionPolicy(options.eviction, is_enabled_ ? options.num_blocks : 0)),
      pins_(is_enabled_ ? options.num_blocks : 0),
      history_(is_enabled_ ? kHistoryFactor * options.num_blocks : 0),
      usage_(is_enabled_ ? options.num_blocks : 0) {
  OCTAVO_CHECK(options.max_pinned_share >= 0.0 && options.max_pinned_share <= 1.0,
               "a share is between 0 and 1");
  if (is_enabled_) pool_->SetRecycler(this);
}

void PrefixCache::SetNow(int64_t now_ms) {
  now_ms_ = std::max(now_ms_, now_ms);
  pins_.TakeExpired(now_ms_,
                    [this](const PinRegistryState::Pin& pin) { UncoverPath(pin.last_block); });
}

uint32_t PrefixCache::RetainRoot(std::string_view key) {
  ++num_sequences_;
  return tree_.RetainRoot(key);
}

void PrefixCache::RetainRoot(uint32_t root) {
  ++num_sequences_;
  tree_.RetainRoot(root);
}

void PrefixCache::ReleaseRoot(uint32_t root) {
  --num_sequences_;
  tree_.ReleaseRoot(root);
}

bool PrefixCache::CanTakeOver(const PrefixTree::Closest& closest) const {
  return closest.num_tokens == tree_.num_tokens(closest.block) && IsRecyclable(closest.block);
}

bool PrefixCache::IsRecyclable(uint32_t block) const {
  return IsIdle(block) && !pins_.is_pinned(block);
}

BlockRef PrefixCache::Hit(uint32_t block) {
  Usage& usage = usage_[block];
  if (IsIdle(block)) {
    counted_.durations.idle_before_reuse.Record(now_ms_ - usage.idle_since_ms);
    if (!pins_.is_pinned(block)) policy_->Remove(block);
  }
  counted_.durations.reuse_gap.Record(now_ms_ - usage.last_use_ms);
  usage.last_use_ms = now_ms_;
  CountReuse(block);
  return pool_->Reference(BlockId(block));
}

void PrefixCache::CountReuse(uint32_t block) {
  if (!is_enabled_ || !tree_.contains(block)) return;
  const uint32_t parent = tree_.parent_block(block);
  uint32_t& num_reuses = usage_[block].num_reuses;
  if (parent == kNoBlock || num_reuses < usage_[parent].num_reuses) ++num_reuses;
}

bool PrefixCache::CanWrite(uint32_t block, int32_t offset) const {
  if (pool_->ref_count(BlockId(block)) > 1) return false;
  if (!is_enabled_ || tree_.num_tokens(block) <= offset) return true;
  return !tree_.has_children(block) && !pins_.is_pinned(block);
}

bool PrefixCache::MustCopyTail(const BlockTable& table) const {
  const int64_t index = table.num_tokens() / table.block_size_tokens();
  const auto offset = static_cast<int32_t>(table.num_tokens() % table.block_size_tokens());
  return offset > 0 && !CanWrite(table.block_ids()[static_cast<size_t>(index)], offset);
}

void PrefixCache::PrepareWrite(uint32_t block, int32_t offset) {
  OCTAVO_DCHECK(CanWrite(block, offset), "a block is written by its only user");
  if (is_enabled_ && tree_.num_tokens(block) > offset) tree_.Cut(block, offset);
}

uint32_t PrefixCache::Publish(uint32_t block, ParentId parent, std::span<const int32_t> tokens) {
  const auto num_held = static_cast<size_t>(tree_.num_tokens(block));
  OCTAVO_CHECK(num_held < tokens.size(), "content is published when it has grown");
  if (tokens.size() == static_cast<size_t>(tree_.state().block_size_tokens)) {
    const uint32_t twin = tree_.FindSealed(parent, tokens);
    if (twin != kNoBlock) {
      if (num_held > 0) {
        pins_.Move(block, twin);
        if (pins_.is_pinned(twin) && policy_->holds(twin)) policy_->Remove(twin);
        tree_.Remove(block);
      }
      ++counted_.num_merged_blocks;
      return twin;
    }
  }
  if (num_held > 0) {
    OCTAVO_CHECK(tree_.parent(block) == parent, "content does not change its place");
    tree_.Extend(block, tokens.subspan(num_held));
  } else {
    tree_.Insert(block, parent, tokens);
    usage_[block] = {now_ms_, now_ms_, now_ms_, 0};
  }
  return block;
}

int64_t PrefixCache::Pin(uint32_t root, std::span<const int32_t> tokens, int64_t ttl_ms,
                         PinId* pin) {
  OCTAVO_CHECK(ttl_ms > 0, "a pin lasts for some time");
  if (pins_.is_full()) return 0;
  const int64_t block_size = tree_.state().block_size_tokens;
  int64_t num_covered = 0;
  uint32_t last_block = kNoBlock;
  bool has_room = true;
  const auto cover = [&](uint32_t block, int64_t num_tokens) {
    has_room =
        has_room && (pins_.is_pinned(block) || pins_.num_pinned_blocks() < max_pinned_blocks_);
    if (!has_room) return;
    const bool was_recyclable = IsRecyclable(block);
    if (pins_.Cover(block) && was_recyclable) policy_->Remove(block);
    num_covered += num_tokens;
    last_block = block;
  };
  const PrefixTree::Closest rest =
      Walk(root, tokens, [&](uint32_t block) { cover(block, block_size); });
  if (rest.block != kNoBlock) cover(rest.block, rest.num_tokens);
  if (last_block == kNoBlock) return 0;
  constexpr int64_t kForever = std::numeric_limits<int64_t>::max();
  const int64_t expires_at_ms = ttl_ms > kForever - now_ms_ ? kForever : now_ms_ + ttl_ms;
  *pin = PinId(pins_.Add(last_block, expires_at_ms));
  return num_covered;
}

bool PrefixCache::Unpin(PinId pin) {
  const auto taken = pins_.Take(pin.value());
  if (taken) UncoverPath(taken->last_block);
  return taken.has_value();
}

void PrefixCache::YieldPins(uint32_t num_blocks) {
  const uint32_t before = policy_->size();
  if (num_blocks == 0) return;
  pins_.TakeOldest([&](const PinRegistryState::Pin& pin) {
    UncoverPath(pin.last_block);
    return policy_->size() - before < num_blocks;
  });
}

void PrefixCache::EndAllPins() {
  pins_.TakeOldest([this](const PinRegistryState::Pin& pin) {
    UncoverPath(pin.last_block);
    return true;
  });
}

void PrefixCache::UncoverPath(uint32_t last_block) {
  // The last block first: a child enters the eviction order before its parent.
  for (uint32_t block = last_block; block != kNoBlock; block = tree_.parent_block(block)) {
    if (pins_.Uncover(block) && IsIdle(block)) MakeRecyclable(block);
  }
}

bool PrefixCache::Keep(BlockId id) {
  const uint32_t block = id.value();
  if (!tree_.contains(block)) return false;
  usage_[block].idle_since_ms = now_ms_;
  if (!pins_.is_pinned(block)) MakeRecyclable(block);
  return true;
}

void PrefixCache::MakeRecyclable(uint32_t block) {
  EvictionCandidate candidate;
  candidate.block = block;
  candidate.parent = tree_.parent_block(block);
  candidate.has_children = tree_.has_children(block);
  candidate.num_reuses = usage_[block].num_reuses;
  candidate.position_tokens = int64_t{tree_.block_index(block)} * tree_.state().block_size_tokens;
  policy_->Insert(candidate);
}

uint32_t PrefixCache::Evict() {
  const uint32_t victim = policy_->PopVictim();
  if (victim == kNoBlock) return kNoBlock;
  const Usage& usage = usage_[victim];
  counted_.durations.lifetime.Record(now_ms_ - usage.published_at_ms);
  counted_.durations.idle_before_eviction.Record(now_ms_ - usage.idle_since_ms);
  ++counted_.num_evictions;
  if (tree_.is_sealed(victim)) history_.Record(tree_.state().nodes[victim].hash, now_ms_);
  tree_.Remove(victim);
  return victim;
}

void PrefixCache::AddTo(KvCacheStats& stats) const {
  stats.num_merged_blocks = counted_.num_merged_blocks;
  stats.num_evictions = counted_.num_evictions;
  stats.durations = counted_.durations;
  stats.num_cached_blocks = policy_->size();
  stats.num_pinned_idle_blocks = pool_->num_evictable() - policy_->size();
  stats.num_pinned_blocks = pins_.num_pinned_blocks();
  stats.num_pins = pins_.num_pins();
  stats.num_roots = tree_.num_roots();
}

}  // namespace octavo::kvcache
