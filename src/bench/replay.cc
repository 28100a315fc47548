#include "bench/replay.h"

#include <algorithm>
#include <map>
#include <queue>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/checked_math.h"
#include "kvcache/cost_aware_policy.h"
#include "octavo/kvcache/kv_cache_spec.h"

namespace octavo::bench {
namespace {

using kvcache::KvCacheManager;

constexpr char kRoot[] = "replay";

// The work of computing the first num_tokens of a prompt: position p costs 1 + p / D.
double CostOf(int64_t num_tokens) {
  const auto count = static_cast<double>(num_tokens);
  constexpr auto kDouble = static_cast<double>(kvcache::CostAwarePolicy::kDoubleCostPosition);
  return count + count * (count - 1.0) / (2.0 * kDouble);
}

double Share(double part, double whole) { return whole > 0.0 ? part / whole : 0.0; }

// The most blocks that the requests can take, even if none is ever given back; one more each for a
// block that is copied.
int64_t MostBlocks(const Trace& trace, int32_t block_size) {
  int64_t count = 0;
  for (const TraceRequest& request : trace.requests) {
    count += base::CeilDivide(request.num_tokens(), int64_t{block_size}) + 1;
  }
  return count;
}

// A pool that the trace cannot fill is kept smaller, so that it takes no memory for nothing.
kvcache::KvCacheOptions CacheOptions(const Trace& trace, kvcache::EvictionPolicyKind policy,
                                     int64_t pool_tokens, int32_t block_size) {
  OCTAVO_CHECK(kvcache::IsBlockSize(block_size), "not a block size");
  OCTAVO_CHECK(pool_tokens >= block_size, "a pool has a block");
  kvcache::KvCacheOptions options;
  options.num_blocks =
      static_cast<uint32_t>(std::min(pool_tokens / block_size, MostBlocks(trace, block_size)));
  options.block_size_tokens = block_size;
  options.max_blocks_per_sequence = std::min<size_t>(
      options.num_blocks, static_cast<size_t>(trace.max_request_tokens / block_size) + 1);
  options.eviction = policy;
  return options;
}

// Serves the requests of one trace in virtual time.
class Server {
 public:
  Server(const Trace& trace, const kvcache::KvCacheOptions& cache, int64_t pool_tokens,
         const ReplayOptions& options)
      : options_(options), manager_(cache), num_kept_blocks_(cache.num_blocks) {
    run_.policy = cache.eviction;
    run_.num_blocks = static_cast<uint32_t>(pool_tokens / cache.block_size_tokens);
    run_.pool_tokens = int64_t{run_.num_blocks} * cache.block_size_tokens;
    tokens_.reserve(static_cast<size_t>(trace.max_request_tokens));
  }

  // REQUIRES: called in the order of arrival.
  void Serve(const TraceRequest& request) {
    MoveTo(request.arrival_ms);
    MakeTokens(request, &tokens_);
    if (NumBlocks(request) > run_.num_blocks) {
      ++run_.num_refused;
      run_.hits.Add(request.num_prompt_tokens, 0);
      return;
    }
    while (!HasRoom(request)) EndFirst();
    Start(request);
  }

  ReplayRun Finish() {
    while (!running_.empty()) EndFirst();
    run_.num_evictions = manager_.stats().num_evictions;
    run_.mean_wait_s = Share(total_wait_s_, static_cast<double>(num_served_));
    return run_;
  }

 private:
  struct Running {
    int64_t end_ms = 0;
    int64_t order = 0;  // of equal ends, the one that started first is first
    const TraceRequest* request = nullptr;
    kvcache::CachedSequence sequence;
  };
  struct EndsLater {
    bool operator()(const Running& a, const Running& b) const {
      return std::pair(a.end_ms, a.order) > std::pair(b.end_ms, b.order);
    }
  };

  int64_t NumBlocks(const TraceRequest& request) const {
    return base::CeilDivide(request.num_tokens(), int64_t{options_.block_size_tokens});
  }

  // Time never falls: while one request waits, those behind it arrive.
  void MoveTo(int64_t time_ms) {
    while (!running_.empty() && running_.front().end_ms <= time_ms) EndFirst();
    now_ms_ = std::max(now_ms_, time_ms);
    manager_.SetNow(now_ms_);
  }

  // A prompt that is cached as a whole still has its last token computed.
  static int64_t MaxHit(const TraceRequest& request) { return request.num_prompt_tokens - 1; }

  bool HasRoom(const TraceRequest& request) const {
    const kvcache::PrefixMatch match = manager_.Match(kRoot, tokens_, MaxHit(request));
    const int64_t num_new = NumBlocks(request) - match.num_shared_blocks;
    return num_new + match.num_idle_blocks <= manager_.num_available_blocks();
  }

  void Start(const TraceRequest& request) {
    copies_.clear();
    kvcache::CachedSequence sequence = manager_.NewSequence(kRoot);
    bool done = manager_.Acquire(sequence, tokens_, MaxHit(request), &copies_);
    const int64_t num_hit = sequence.num_tokens();
    done = done && manager_.Reserve(sequence, request.num_tokens(), &copies_);
    OCTAVO_CHECK(done, "there was room for the request");
    manager_.Commit(sequence, tokens_, request.num_prompt_tokens);

    run_.hits.Add(request.num_prompt_tokens, num_hit);
    ++num_served_;
    total_wait_s_ += 1e-3 * static_cast<double>(now_ms_ - request.arrival_ms);
    const double duration_s =
        static_cast<double>(request.num_prompt_tokens - num_hit) / options_.prefill_tokens_per_s +
        request.num_output_tokens / options_.decode_tokens_per_s;
    const int64_t end_ms = now_ms_ + static_cast<int64_t>(duration_s * 1e3);
    running_.push_back({end_ms, num_served_, &request, std::move(sequence)});
    std::push_heap(running_.begin(), running_.end(), EndsLater());

    const uint32_t in_use =
        num_kept_blocks_ - manager_.stats().num_free_blocks - manager_.stats().num_cached_blocks;
    run_.peak_blocks_in_use = std::max(run_.peak_blocks_in_use, in_use);
    run_.peak_running = std::max(run_.peak_running, static_cast<int32_t>(running_.size()));
  }

  void EndFirst() {
    std::pop_heap(running_.begin(), running_.end(), EndsLater());
    Running ended = std::move(running_.back());
    running_.pop_back();
    now_ms_ = std::max(now_ms_, ended.end_ms);
    manager_.SetNow(now_ms_);
    MakeTokens(*ended.request, &ended_tokens_);
    manager_.Commit(ended.sequence, ended_tokens_, ended.request->num_tokens());
  }

  ReplayOptions options_;
  KvCacheManager manager_;
  uint32_t num_kept_blocks_;           // the manager's
  std::vector<Running> running_;       // a heap, the first to end in front
  std::vector<int32_t> tokens_;        // of the request that starts
  std::vector<int32_t> ended_tokens_;  // of the one that ends
  std::vector<kvcache::BlockCopy> copies_;
  int64_t now_ms_ = 0;
  int64_t num_served_ = 0;
  double total_wait_s_ = 0;
  ReplayRun run_;
};

}  // namespace

double ReplayHits::hit_rate() const {
  return Share(static_cast<double>(num_hit_tokens), static_cast<double>(num_prompt_tokens));
}

double ReplayHits::saved_cost_share() const { return Share(saved_cost, prompt_cost); }

void ReplayHits::Add(int64_t prompt_tokens, int64_t hit_tokens) {
  num_prompt_tokens += prompt_tokens;
  num_hit_tokens += hit_tokens;
  prompt_cost += CostOf(prompt_tokens);
  saved_cost += CostOf(hit_tokens);
}

ReplayBound BoundOf(const Trace& trace) {
  // The tree of all prompts: a node for each block's content after its parent, with the most tokens
  // of it that were seen.
  struct Node {
    int32_t id = 0;
    int32_t num_tokens = 0;
  };
  std::map<std::pair<int32_t, int32_t>, Node> nodes;  // by parent's id and content
  ReplayBound bound;
  for (const TraceRequest& request : trace.requests) {
    int32_t parent = 0;
    int64_t num_hit = 0;
    bool is_hit = true;
    int32_t num_left = request.num_prompt_tokens;
    for (const int32_t content : request.content) {
      Node& node = nodes[{parent, content}];
      if (node.id == 0) node.id = static_cast<int32_t>(nodes.size());
      const int32_t count = std::min(num_left, kTraceBlockTokens);
      if (is_hit) num_hit += std::min(count, node.num_tokens);
      is_hit = is_hit && node.num_tokens >= count;
      bound.pool_tokens += std::max(count - node.num_tokens, 0);
      node.num_tokens = std::max(node.num_tokens, count);
      num_left -= count;
      parent = node.id;
    }
    bound.hits.Add(request.num_prompt_tokens,
                   std::min<int64_t>(num_hit, request.num_prompt_tokens - 1));
    bound.pool_tokens += request.num_output_tokens;
  }
  return bound;
}

ReplayRun Replay(const Trace& trace, kvcache::EvictionPolicyKind policy, int64_t pool_tokens,
                 const ReplayOptions& options, const ReplayProgress& on_progress) {
  Server server(trace, CacheOptions(trace, policy, pool_tokens, options.block_size_tokens),
                pool_tokens, options);
  const size_t num_requests = trace.requests.size();
  const size_t stride = num_requests / 100 + 1;
  for (size_t i = 0; i < num_requests; ++i) {
    if (on_progress && i % stride == 0) {
      on_progress(static_cast<double>(i) / static_cast<double>(num_requests));
    }
    server.Serve(trace.requests[i]);
  }
  return server.Finish();
}

const char* EvictionPolicyName(kvcache::EvictionPolicyKind policy) {
  return policy == kvcache::EvictionPolicyKind::kLru ? "lru" : "cost_aware";
}

}  // namespace octavo::bench
