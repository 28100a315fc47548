#pragma once

// Purpose:    the KV cache's control plane in one object: which sequence holds which blocks, which
//             content is cached, and who gives way when the pool is full. Metadata only: the caller
//             owns the bytes, and carries out the copies that it is handed.
// Ownership:  owns pool, prefix cache and eviction policy. A CachedSequence holds references into
//             them; the manager outlives its sequences (checked) and does not move.
// Threading:  one thread at a time (the engine's).
// Invariants: for one root, equal tokens at equal positions mean equal K and V, so that a block's
//             identity is (root, the tokens up to its end). A hit compares tokens; hashes only find
//             candidates. Content is published when it is committed, never before. A sealed block
//             never changes; a block with more than one reference is read-only. Nothing that fails
//             has changed anything. See docs/contracts/kv-cache.md.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "octavo/kvcache/block_pool.h"
#include "octavo/kvcache/cached_sequence.h"
#include "octavo/kvcache/explanation.h"
#include "octavo/kvcache/integrity.h"
#include "octavo/kvcache/kv_cache_stats.h"
#include "octavo/strong_id.h"

namespace octavo::kvcache {

enum class EvictionPolicyKind { kLru, kCostAware };

using PinId = StrongId<struct PinIdTag, uint64_t>;

struct KvCacheOptions {
  uint32_t num_blocks = 0;             // below 2^31
  int32_t block_size_tokens = 16;      // 8, 16, 32, 64, 128 or 256
  size_t max_blocks_per_sequence = 0;  // room that a sequence's table reserves
  bool enable_prefix_caching = true;   // false: nothing is published, nothing is found
  EvictionPolicyKind eviction = EvictionPolicyKind::kCostAware;
  double max_pinned_share = 0.5;  // of the blocks; [0, 1]
};

// What Acquire would find, without changing anything.
struct PrefixMatch {
  int64_t num_tokens = 0;          // leading tokens whose K and V are cached
  uint32_t num_shared_blocks = 0;  // whole blocks among them, which would be shared
  uint32_t num_idle_blocks = 0;  // of those, the ones that no sequence holds now: taking them makes
                                 // that many fewer blocks available
  bool copies_block = false;     // the last tokens lie in a block that must be copied first
};

// A copy of a block's first num_tokens positions, all layers. Copies are carried out in the order
// in which they were given, all of them, also those of a sequence that is gone by then, and before
// any block is written or read otherwise (the step's K and V, swapping in and out): so a source
// that is given to somebody else in the meantime still holds what is to be copied. See
// contracts/kv-cache.md#copies.
struct BlockCopy {
  BlockId source;
  BlockId destination;
  int32_t num_tokens = 0;
};

class KvCacheManager {
 public:
  // REQUIRES: IsBlockSize(block_size_tokens).
  explicit KvCacheManager(const KvCacheOptions& options);
  ~KvCacheManager();
  KvCacheManager(const KvCacheManager&) = delete;
  KvCacheManager& operator=(const KvCacheManager&) = delete;

  // The time that pins, statistics and explanations go by; never falls. Expired pins end here.
  void SetNow(int64_t now_ms);

  // ---- A sequence's life: NewSequence, Acquire, (Reserve, compute, Commit)*, destroy.
  // `root` is the identity of everything but the tokens that K and V depend on, and of whoever may
  // share them: see root_key.h. Copied.
  CachedSequence NewSequence(std::string_view root);

  // The longest cached prefix of `tokens`, at most max_tokens of it. O(blocks matched).
  PrefixMatch Match(std::string_view root, std::span<const int32_t> tokens,
                    int64_t max_tokens) const;
  // Takes what Match finds: shares whole blocks, copies the first tokens of a partly matching one,
  // or takes over an unsealed block that nobody holds and whose tokens were all found. Afterwards
  // sequence.num_tokens() is the length found. False, and nothing changed, when the pool has no
  // block for the copy. REQUIRES: an empty sequence.
  [[nodiscard]] bool Acquire(CachedSequence& sequence, std::span<const int32_t> tokens,
                             int64_t max_tokens, std::vector<BlockCopy>* copies);
  // Makes the positions [sequence.num_tokens(), num_tokens) writable: blocks of its own, and a copy
  // of a shared tail. Evicts cached content as needed. False, and nothing changed, when the pool
  // cannot give that many blocks.
  [[nodiscard]] bool Reserve(CachedSequence& sequence, int64_t num_tokens,
                             std::vector<BlockCopy>* copies);
  // How many blocks Reserve would take from the pool: it succeeds if and only if that many are
  // available.
  uint32_t NumBlocksToReserve(const CachedSequence& sequence, int64_t num_tokens) const;
  // The K and V of tokens [sequence.num_tokens(), num_computed) are stored now. Publishes them, and
  // gives a full block back when an equal one is cached already (the table then names that one).
  // `tokens`: all of the sequence's, at least num_computed. REQUIRES: they are reserved, and the
  // sequence was not forked since.
  void Commit(CachedSequence& sequence, std::span<const int32_t> tokens, int64_t num_computed);
  // A second sequence that shares all blocks with committed tokens; whoever first writes into the
  // shared tail copies it.
  CachedSequence Fork(const CachedSequence& sequence);
  // Forgets the positions from num_tokens on (rollback) and gives up what was reserved behind them;
  // other holders keep theirs. The content stays cached until the sequence reserves positions in
  // its last block again: then that block is cut, or copied when others rely on it.
  void Truncate(CachedSequence& sequence, int64_t num_tokens);
  // Gives every block back; the sequence is empty again. The destructor does the same.
  void Release(CachedSequence& sequence) { sequence.Reset(); }
  // One run of blocks with consecutive ids, for the contiguous baseline. REQUIRES: an empty
  // sequence; prefix caching is off.
  [[nodiscard]] bool ReserveContiguous(CachedSequence& sequence, uint32_t num_blocks);

  // ---- Pins: cached content that eviction passes over, until its time ends, it is unpinned, or
  // the pins must yield. Pins the cached prefix of `tokens`; returns how many tokens it covers (the
  // cap may cut it short; 0 = nothing is pinned, `pin` unchanged). REQUIRES: ttl_ms > 0.
  int64_t Pin(std::string_view root, std::span<const int32_t> tokens, int64_t ttl_ms, PinId* pin);
  bool Unpin(PinId pin);  // false: it had ended already
  // Ends pins, the oldest first, until `num_blocks` of them can be evicted or none is left.
  void YieldPins(uint32_t num_blocks);

  // Ends all pins and drops all cached content that nobody holds.
  void Reset();

  // ---- Questions.
  int32_t block_size_tokens() const;
  uint32_t num_blocks() const;
  // Blocks that Reserve could get now: free, or cached and neither held nor pinned.
  uint32_t num_available_blocks() const;
  KvCacheStats stats() const;
  // For each block of the prompt: hit, partial, or why not. Within this root alone.
  std::vector<BlockExplanation> Explain(std::string_view root,
                                        std::span<const int32_t> tokens) const;
  // Pool, index, policy and pins against each other and against `sequences`, which are all there
  // are. O(blocks), never aborts.
  IntegrityReport CheckIntegrity(std::span<const CachedSequence* const> sequences) const;
  // The same without the sequences: what can be known from inside.
  IntegrityReport CheckIntegrity() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace octavo::kvcache
