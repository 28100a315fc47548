#pragma once

// Purpose:    memory by purpose, planned and actual, with the same tags in both, so that they can
//             be compared line by line.
// Ownership:  plain values.
// Threading:  plain data; an engine's snapshot is consistent with itself.
// Invariants: every buffer whose size follows from the model, the context or the step is under
//             exactly one tag. Bookkeeping of a few bytes per block or token (block tables, token
//             ids, one request's sampler) is not counted.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace octavo {

enum class MemoryTag { kWeights, kKvCache, kActivations, kTokenizer, kScratch, kOther };
inline constexpr size_t kNumMemoryTags = 6;

// "weights", "kv_cache", "activations", "tokenizer", "scratch", "other".
std::string_view MemoryTagName(MemoryTag tag);

struct MemoryUsage {
  std::array<int64_t, kNumMemoryTags> bytes{};  // indexed by MemoryTag
  int64_t& operator[](MemoryTag tag) { return bytes[static_cast<size_t>(tag)]; }
  int64_t operator[](MemoryTag tag) const { return bytes[static_cast<size_t>(tag)]; }
  int64_t total() const {
    int64_t sum = 0;
    for (int64_t b : bytes) sum += b;
    return sum;
  }
};

struct MemoryPlan {
  MemoryUsage planned;
  MemoryUsage actual;
  int64_t limit_bytes = 0;         // min(RAM, cgroup limit, address space) * gpu_memory_utilization
  int64_t kv_bytes_per_token = 0;  // all layers, K and V
  int32_t kv_block_size_tokens = 0;
  int64_t kv_num_blocks = 0;
  int64_t kv_capacity_tokens = 0;
};

}  // namespace octavo
