#include "octavo/kvcache/cached_sequence.h"

#include <utility>

#include "kvcache/prefix_cache.h"

namespace octavo::kvcache {

CachedSequence::~CachedSequence() { Leave(); }

CachedSequence::CachedSequence(CachedSequence&& other) noexcept
    : cache_(std::exchange(other.cache_, nullptr)),
      root_(other.root_),
      table_(std::exchange(other.table_, std::nullopt)) {}

CachedSequence& CachedSequence::operator=(CachedSequence&& other) noexcept {
  if (this != &other) {
    Leave();
    cache_ = std::exchange(other.cache_, nullptr);
    root_ = other.root_;
    table_ = std::exchange(other.table_, std::nullopt);
  }
  return *this;
}

void CachedSequence::Leave() {
  Reset();
  if (PrefixCache* const cache = std::exchange(cache_, nullptr)) cache->ReleaseRoot(root_);
}

void CachedSequence::Reset() {
  if (table_) table_->Truncate(0);
}

int64_t CachedSequence::num_tokens() const { return table_ ? table_->num_tokens() : 0; }

int64_t CachedSequence::capacity_tokens() const { return table_ ? table_->capacity_tokens() : 0; }

std::span<const uint32_t> CachedSequence::block_ids() const {
  return table_ ? table_->block_ids() : std::span<const uint32_t>();
}

bool CachedSequence::tail_is_shared() const { return table_ && cache_->MustCopyTail(*table_); }

}  // namespace octavo::kvcache
