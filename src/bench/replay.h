#pragma once

// Purpose:    what a pool and an eviction policy are worth on a request trace, as `octavo replay`
//             prints. Metadata only: the real KvCacheManager, without any model.
// Ownership:  each call makes its own manager.
// Threading:  independent calls may run side by side.
// Invariants: deterministic. Requests are served in the order of their arrival. One starts when it
//             has arrived, all before it have started, and the pool can give the blocks for prompt
//             and output; it holds them until it ends, which takes the time of the prompt tokens
//             that were not cached, at prefill_tokens_per_s, and of the output, at
//             decode_tokens_per_s. Its prompt is cached content from its start on, since the engine
//             lets others wait for what is being computed; its output when it ends. The time that a
//             request waits moves later ones, never their order. A request that the whole pool
//             cannot hold is refused: all of its prompt counts as not cached.

#include <cstdint>
#include <functional>

#include "bench/trace.h"
#include "octavo/kvcache/kv_cache_manager.h"

namespace octavo::bench {

struct ReplayOptions {
  int32_t block_size_tokens = 64;
  double prefill_tokens_per_s = 20000;  // of one request, > 0
  double decode_tokens_per_s = 50;      // of one request, > 0
};

// What was found of the prompts of a trace.
struct ReplayHits {
  int64_t num_prompt_tokens = 0;
  int64_t num_hit_tokens = 0;
  // The work of computing all prompts, and the part that the hits saved; in the work of a token at
  // position 0. A token's work grows with its position.
  double prompt_cost = 0;
  double saved_cost = 0;

  double hit_rate() const;          // of the tokens, 0..1
  double saved_cost_share() const;  // 0..1
  void Add(int64_t prompt_tokens, int64_t hit_tokens);
};

struct ReplayRun {
  kvcache::EvictionPolicyKind policy = kvcache::EvictionPolicyKind::kLru;
  uint32_t num_blocks = 0;
  int64_t pool_tokens = 0;  // num_blocks * block size
  ReplayHits hits;
  int64_t num_refused = 0;  // requests
  uint64_t num_evictions = 0;
  uint32_t peak_blocks_in_use = 0;
  int32_t peak_running = 0;
  double mean_wait_s = 0;  // from arrival to start, of the requests served
};

// What a pool without end would find, whatever the policy: the bound for all of them.
struct ReplayBound {
  ReplayHits hits;
  int64_t pool_tokens = 0;  // distinct tokens: all that such a pool would come to hold
};

// Called with the share of requests done, about a hundred times. May be empty.
using ReplayProgress = std::function<void(double share)>;

ReplayBound BoundOf(const Trace& trace);

// REQUIRES: options in range; pool_tokens at least one block and fewer than 2^31.
ReplayRun Replay(const Trace& trace, kvcache::EvictionPolicyKind policy, int64_t pool_tokens,
                 const ReplayOptions& options, const ReplayProgress& on_progress = nullptr);

// "lru", "cost_aware".
const char* EvictionPolicyName(kvcache::EvictionPolicyKind policy);

}  // namespace octavo::bench
