// The KV cache's control plane under a toy engine that is not octavo's: K and V of a token are one
// integer, which stands for everything that they depend on, and the "model" adds them up.
//
//   find_package(octavo COMPONENTS kvcache); target_link_libraries(... octavo::kvcache)

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "octavo/kvcache/kv_cache_manager.h"
#include "octavo/kvcache/root_key.h"

using octavo::kvcache::BlockCopy;
using octavo::kvcache::CachedSequence;
using octavo::kvcache::KvCacheManager;
using octavo::kvcache::KvCacheStats;
using octavo::kvcache::RootField;
using octavo::kvcache::RootKey;

namespace {

constexpr size_t kBlockSize = 8;
constexpr uint32_t kNumBlocks = 12;

class ToyEngine {
 public:
  CachedSequence Start(const std::vector<int32_t>& prompt) {
    RootKey root;
    root.Add(RootField::kModel, "toy").Add(RootField::kSalt, "example");
    CachedSequence sequence = manager_.NewSequence(root.bytes());
    // The last token is computed in any case: its output is wanted.
    const auto limit = static_cast<int64_t>(prompt.size()) - 1;
    if (!manager_.Acquire(sequence, prompt, limit, &copies_)) std::puts("no block for a copy");
    return sequence;
  }

  // Stores what is missing of `tokens`, and returns what the "model" says to them.
  int64_t Step(CachedSequence& sequence, const std::vector<int32_t>& tokens) {
    const auto length = static_cast<int64_t>(tokens.size());
    if (!manager_.Reserve(sequence, length, &copies_)) return -1;  // all blocks are in use
    for (const BlockCopy& copy : copies_) {  // before anything else is written
      for (int32_t i = 0; i < copy.num_tokens; ++i) {
        const auto offset = static_cast<size_t>(i);
        Slot(copy.destination.value(), offset) = Slot(copy.source.value(), offset);
      }
    }
    copies_.clear();
    int64_t sum = 0;
    for (int64_t position = 0; position < length; ++position) {
      const auto index = static_cast<size_t>(position);
      int64_t& slot = Slot(sequence.block_ids()[index / kBlockSize], index % kBlockSize);
      if (position >= sequence.num_tokens()) slot = tokens[index] * (position + 1);
      sum += slot;  // attention, in a way: reads what is stored, found or computed
    }
    manager_.Commit(sequence, tokens, length);
    return sum;
  }

  CachedSequence Fork(const CachedSequence& sequence) { return manager_.Fork(sequence); }

  void Print(const char* what) const {
    const KvCacheStats stats = manager_.stats();
    std::printf(
        "%-28s in use %2u, cached %2u, free %2u; hits %3llu tokens, evictions %llu, copies %llu\n",
        what, stats.num_blocks_in_use, stats.num_cached_blocks, stats.num_free_blocks,
        static_cast<unsigned long long>(stats.num_hit_tokens),
        static_cast<unsigned long long>(stats.num_evictions),
        static_cast<unsigned long long>(stats.num_copies));
  }

 private:
  int64_t& Slot(uint32_t block, size_t offset) { return slots_[block * kBlockSize + offset]; }

  KvCacheManager manager_{{.num_blocks = kNumBlocks, .block_size_tokens = kBlockSize}};
  std::vector<int64_t> slots_ = std::vector<int64_t>(kNumBlocks * kBlockSize);
  std::vector<BlockCopy> copies_;
};

}  // namespace

int main() {
  ToyEngine engine;
  std::vector<int32_t> prompt;  // 28 tokens: three blocks and a half
  for (int32_t i = 0; i < 28; ++i) prompt.push_back(100 + i);
  bool is_right = true;
  {
    CachedSequence first = engine.Start(prompt);
    const int64_t cold = engine.Step(first, prompt);
    engine.Print("computed a prompt");

    CachedSequence second = engine.Start(prompt);  // found while the first one still runs
    is_right = is_right && engine.Step(second, prompt) == cold;
    engine.Print("found it again");

    std::vector<int32_t> left = prompt, right = prompt;
    left.push_back(1);
    right.push_back(2);
    CachedSequence fork = engine.Fork(first);
    const int64_t one = engine.Step(first, left);
    const int64_t two = engine.Step(fork, right);  // the fork's last block is its own by now
    is_right = is_right && two - one == 29;
    engine.Print("forked it");
  }
  engine.Print("all sequences are gone");
  for (int32_t i = 0; i < 3; ++i) {
    std::vector<int32_t> other(30, 1000 * (i + 1));
    CachedSequence sequence = engine.Start(other);
    is_right = is_right && engine.Step(sequence, other) == 1000LL * (i + 1) * 30 * 31 / 2;
  }
  engine.Print("others needed the room");
  std::puts(is_right ? "every answer is right" : "WRONG ANSWER");
  return is_right ? 0 : 1;
}
