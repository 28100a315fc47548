#pragma once

// Purpose:    what an engine is made of: model, cache, scheduler and compute. Grouped, with units;
//             names are vLLM's where vLLM has one.
// Ownership:  plain values, copied by Engine::Create.
// Threading:  plain data.
// Invariants: checked by Engine::Create, which names the first field that is out of its range.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace octavo {

class Profiler;

// How the products of activations with quantised weights are formed. This chooses WHAT is computed.
enum class ComputeType {
  kInt8,     // activations of 8 bits, one scale for each 32 (default)
  kFloat32,  // weights expanded to float32 in registers
  kInt16,    // activations of 16 bits, one scale for each row: no measurable loss
};

// How K and V are stored. This chooses WHAT is computed.
enum class KvCacheDtype {
  kAuto,  // kFloat16
  kFloat32,
  kFloat16,
  kBFloat16,
  kInt8,  // one FP16 scale per token and kv head; attention in integers
};

// How the cache is organised. Changes only memory and time, never a bit of the answer.
enum class KvCacheMode {
  kPaged,       // blocks on demand from a pool (default)
  kContiguous,  // one reservation of max_model_len tokens per sequence, as a baseline
  kNone,        // every step recomputes the whole sequence, as a baseline
};

// Which kernels run. Never changes a bit of the answer.
enum class SimdLevel { kAuto, kReference, kAvx2, kAvx512, kNeon };

// Which cached block gives way first. Never changes a bit of the answer.
enum class EvictionPolicy {
  kLru,        // the one unused for longest, never-shared ones before shared ones
  kCostAware,  // the one that costs least to compute again for as often as it was used
};

// Which waiting request is next.
enum class SchedulingPolicy {
  kFcfs,      // first come, first served
  kPriority,  // Request::priority, then first come
};

struct ModelOptions {
  std::string path;  // a GGUF file, or the first shard of a split one
  // Tokens, prompt and output, at most the model's context; absent = that, or what memory allows.
  std::optional<int32_t> max_model_len;
  ComputeType compute = ComputeType::kInt8;
  std::string chat_template;  // the text of a Jinja template instead of the file's; "" = the file's
};

struct CacheOptions {
  int32_t block_size = 16;  // tokens; 8, 16, 32, 64, 128 or 256
  KvCacheDtype dtype = KvCacheDtype::kAuto;
  KvCacheMode mode = KvCacheMode::kPaged;
  // Size of the block pool. Absent: room for 16 sequences of max_model_len tokens, at most 2 GiB
  // and what the memory limit leaves, at least one such sequence.
  std::optional<int64_t> kv_cache_memory_bytes;
  // Room for the K and V of preempted sequences, inside the memory limit; 0 = they are recomputed.
  int64_t swap_space_bytes = 0;
  // Takes the RAM of both at the start: no request waits for pages. Otherwise it is taken as blocks
  // are first used.
  bool populate = false;
  bool enable_prefix_caching = true;  // kPaged only
  EvictionPolicy eviction_policy = EvictionPolicy::kCostAware;
  double max_pinned_share = 0.5;  // of the blocks that pins may hold; [0, 1]
  // Share of min(RAM, cgroup limit, address space) that everything together may use; (0, 1].
  double gpu_memory_utilization = 0.92;
};

struct SchedulerOptions {
  // Tokens of one step, prompts and decodes together, 1 to 16384; absent = about half a second of
  // work on this machine, at most 512.
  std::optional<int32_t> max_num_batched_tokens;
  int32_t max_num_seqs = 256;  // sequences that run at once, 1 to 4096
  SchedulingPolicy policy = SchedulingPolicy::kFcfs;
  // Baseline: a batch is filled once and runs to the end of its last request before the next.
  bool static_batching = false;
  // Audits the cache after every step, and ends the process on a finding: for tests.
  bool check_integrity = false;
};

struct DeviceOptions {
  std::optional<int32_t> threads;  // 1 to 256; absent = the processors this process may use
  SimdLevel simd = SimdLevel::kAuto;
};

struct EngineOptions {
  ModelOptions model;
  CacheOptions cache;
  SchedulerOptions scheduler;
  DeviceOptions device;
  // Called on the creating thread while the model loads, with a share in [0, 1] that never falls.
  // May be empty.
  std::function<void(double share)> on_load_progress;
  // Records where the time of the steps goes (octavo/profiler.h); null: nothing is recorded. It
  // must outlive the engine, and serves one engine at a time.
  Profiler* profiler = nullptr;
};

}  // namespace octavo
