// The whole manager against a naive model, under random programs. The model keeps for each slot
// (block, offset) the K and V that a real engine would hold there, as one integer: the chain hash
// of (root, tokens up to the position). It carries out copies and writes as an engine does, and
// then every position of every sequence must hold exactly the hash of its own prefix. A block that
// was found wrongly, overwritten while shared, published too early, copied too late or given away
// too soon shows as a wrong integer. RapidCheck prints the seed and the shortest failing program.

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "octavo/kvcache/kv_cache_manager.h"

namespace octavo::kvcache {
namespace {

constexpr int32_t kBlockSize = 8;
constexpr int kNumRoots = 3;
constexpr size_t kMaxSequences = 8;
constexpr uint64_t kGarbage = 0;  // a slot with nothing, or with K and V that were never committed

uint64_t Chain(uint64_t before, int32_t token) {
  uint64_t mixed = (before ^ (static_cast<uint64_t>(token) + 1)) * 0x9e3779b97f4a7c15u;
  mixed ^= mixed >> 29;
  return mixed * 0xbf58476d1ce4e5b9u | 1;  // never kGarbage
}

size_t CommonPrefix(const std::vector<int32_t>& first, const std::vector<int32_t>& second) {
  const size_t length = std::min(first.size(), second.size());
  size_t i = 0;
  while (i < length && first[i] == second[i]) ++i;
  return i;
}

struct Operation {
  int kind = 0;
  uint32_t first = 0;
  uint32_t second = 0;
  std::vector<int32_t> tokens;
};

void showValue(const Operation& operation, std::ostream& out) {
  out << "{" << operation.kind << ", " << operation.first << ", " << operation.second << ", "
      << rc::toString(operation.tokens) << "}";
}

rc::Gen<std::vector<Operation>> Programs(int num_kinds) {
  const auto token = rc::gen::inRange<int32_t>(0, 3);
  const auto operation = rc::gen::build<Operation>(
      rc::gen::set(&Operation::kind, rc::gen::inRange(0, num_kinds)),
      rc::gen::set(&Operation::first, rc::gen::inRange<uint32_t>(0, 10000)),
      rc::gen::set(&Operation::second, rc::gen::inRange<uint32_t>(0, 10000)),
      rc::gen::set(&Operation::tokens,
                   rc::gen::resize(24, rc::gen::container<std::vector<int32_t>>(token))));
  return rc::gen::resize(300, rc::gen::container<std::vector<Operation>>(operation));
}

struct ModelSequence {
  int root = 0;
  std::vector<int32_t> tokens;  // the first num_tokens() of them are committed
  CachedSequence held;
  int64_t planned = 0;        // > 0: reserved up to here, to be written at the end of the step
  int64_t num_published = 0;  // leading tokens that others must find while this sequence lives
};

class ManagerDriver {
 public:
  explicit ManagerDriver(const KvCacheOptions& options)
      : options_(options),
        manager_(std::make_unique<KvCacheManager>(options)),
        slots_(options.num_blocks, std::vector<uint64_t>(kBlockSize, kGarbage)) {}

  void Apply(const Operation& operation) {
    const uint32_t first = operation.first;
    const uint32_t second = operation.second;
    switch (operation.kind) {
      case 0:
      case 1:
        return Start(first, second, operation.tokens);
      case 2:
      case 3:
      case 4:
        return PlanGrowth(first, second, operation.tokens);
      case 5:
      case 6:
        return EndStep();
      case 7:
        return Fork(first);
      case 8:
        return Destroy(first);
      case 9:
        return ChangePins(first, second);
      case 10:
        return PassTime(first, second);
      case 11:
      case 12:
        return Truncate(first, second);
    }
  }

  void CheckBooks() const {
    std::vector<const CachedSequence*> pointers;
    for (const auto& sequence : sequences_) pointers.push_back(&sequence->held);
    const IntegrityReport report = manager_->CheckIntegrity(pointers);
    if (!report.ok()) RC_FAIL(report.ToString());
    const KvCacheStats stats = manager_->stats();
    RC_ASSERT(stats.num_free_blocks + stats.num_cached_blocks + stats.num_pinned_idle_blocks +
                  stats.num_blocks_in_use ==
              options_.num_blocks);
    RC_ASSERT(manager_->num_available_blocks() == stats.num_free_blocks + stats.num_cached_blocks);
    RC_ASSERT(stats.num_pinned_blocks <= options_.max_pinned_share * options_.num_blocks);
  }

  // Ends the step, then everything: nothing may be left.
  void Finish() {
    EndStep();
    sequences_.clear();
    CheckBooks();
    RC_ASSERT(manager_->stats().num_blocks_in_use == 0u);
    manager_->Reset();
    CheckBooks();
    const KvCacheStats stats = manager_->stats();
    RC_ASSERT(stats.num_free_blocks == options_.num_blocks);
    RC_ASSERT(stats.num_roots == 0u);
    RC_ASSERT(stats.num_pins == 0u);
  }

  bool finds_everything() const { return manager_->stats().num_evictions == 0 && !forgot_; }
  uint64_t num_hit_tokens() const { return manager_->stats().num_hit_tokens; }

 private:
  static std::string RootName(int root) { return "root " + std::to_string(root); }

  ModelSequence* Choose(uint32_t choice) {
    return sequences_.empty() ? nullptr : sequences_[choice % sequences_.size()].get();
  }

  // A prompt that goes along with something that was seen, and then its own way.
  std::vector<int32_t> MakePrompt(int root, uint32_t choice, const std::vector<int32_t>& own) {
    std::vector<int32_t> prompt;
    const auto& seen = seen_[root];
    if (!seen.empty()) {
      const std::vector<int32_t>& model = seen[choice % seen.size()];
      prompt.assign(model.begin(),
                    model.begin() + static_cast<std::ptrdiff_t>(choice / 7 % (model.size() + 1)));
    }
    prompt.insert(prompt.end(), own.begin(), own.end());
    return prompt;
  }

  void Start(uint32_t first, uint32_t second, const std::vector<int32_t>& own) {
    if (sequences_.size() >= kMaxSequences) return;
    auto sequence = std::make_unique<ModelSequence>();
    sequence->root = static_cast<int>(first % kNumRoots);
    sequence->tokens = MakePrompt(sequence->root, second, own);
    const auto limit = static_cast<int64_t>(sequence->tokens.size()) - (first / 3 % 2);
    const std::string root = RootName(sequence->root);
    sequence->held = manager_->NewSequence(root);

    const PrefixMatch match = manager_->Match(root, sequence->tokens, limit);
    CheckMatch(*sequence, match, limit);
    const uint32_t available = manager_->num_available_blocks();
    const size_t num_copies = copies_.size();
    const bool done = manager_->Acquire(sequence->held, sequence->tokens, limit, &copies_);
    if (!done) {
      RC_ASSERT(match.copies_block);
      RC_ASSERT(available == 0u);
      RC_ASSERT(copies_.size() == num_copies);
      RC_ASSERT(sequence->held.num_blocks() == 0u);
      RC_ASSERT(manager_->num_available_blocks() == available);
      return;
    }
    RC_ASSERT(sequence->held.num_tokens() == match.num_tokens);
    sequence->num_published = match.num_tokens / kBlockSize * kBlockSize;
    sequences_.push_back(std::move(sequence));
  }

  void CheckMatch(const ModelSequence& sequence, const PrefixMatch& match, int64_t limit) const {
    RC_ASSERT(match.num_tokens <= std::max<int64_t>(limit, 0));
    if (!options_.enable_prefix_caching) {
      RC_ASSERT(match.num_tokens == 0);
      return;
    }
    int64_t longest_held = 0;
    for (const auto& other : sequences_) {
      if (other->root != sequence.root) continue;
      const auto common = static_cast<int64_t>(CommonPrefix(other->tokens, sequence.tokens));
      longest_held = std::max(longest_held, std::min(common, other->num_published));
    }
    RC_ASSERT(match.num_tokens >= std::min(longest_held, limit));
    int64_t longest_committed = 0;
    const auto committed = committed_.find(sequence.root);
    if (committed != committed_.end()) {
      for (const auto& tokens : committed->second) {
        longest_committed = std::max(longest_committed,
                                     static_cast<int64_t>(CommonPrefix(tokens, sequence.tokens)));
      }
    }
    RC_ASSERT(match.num_tokens <= longest_committed);
    if (finds_everything()) {
      RC_ASSERT(match.num_tokens == std::min(longest_committed, std::max<int64_t>(limit, 0)));
    }
  }

  void PlanGrowth(uint32_t first, uint32_t second, const std::vector<int32_t>& more) {
    ModelSequence* const sequence = Choose(first);
    if (sequence == nullptr || sequence->planned > 0) return;
    const int64_t num_tokens = sequence->held.num_tokens();
    if (static_cast<int64_t>(sequence->tokens.size()) == num_tokens) {
      sequence->tokens.insert(sequence->tokens.end(), more.begin(), more.end());
    }
    const auto known = static_cast<int64_t>(sequence->tokens.size());
    if (known == num_tokens) return;
    Plan(*sequence, num_tokens + 1 + second % (known - num_tokens), second % 4);
  }

  // Reserves num_extra tokens more than `target`: such as are then rejected.
  void Plan(ModelSequence& sequence, int64_t target, int64_t num_extra) {
    const int64_t num_tokens = sequence.held.num_tokens();
    const int64_t reserved = target + num_extra;
    const std::vector<uint32_t> before(sequence.held.block_ids().begin(),
                                       sequence.held.block_ids().end());
    const uint32_t available = manager_->num_available_blocks();
    const uint32_t needed = manager_->NumBlocksToReserve(sequence.held, reserved);
    const bool tail_is_shared = sequence.held.tail_is_shared();
    const size_t num_copies = copies_.size();
    const bool done = manager_->Reserve(sequence.held, reserved, &copies_);
    RC_ASSERT(done == (needed <= available));
    if (!done) {
      RC_ASSERT(std::ranges::equal(before, sequence.held.block_ids()));
      RC_ASSERT(copies_.size() == num_copies);
      RC_ASSERT(manager_->num_available_blocks() == available);
      return;
    }
    RC_ASSERT(sequence.held.capacity_tokens() >= reserved);
    RC_ASSERT(!sequence.held.tail_is_shared());
    RC_ASSERT(copies_.size() - num_copies <= (tail_is_shared ? 1u : 0u));
    sequence.num_published = std::min(sequence.num_published, num_tokens / kBlockSize * kBlockSize);
    sequence.planned = target;
  }

  uint64_t& Slot(const ModelSequence& sequence, int64_t position) {
    const uint32_t block = sequence.held.block_ids()[static_cast<size_t>(position / kBlockSize)];
    return slots_[block][static_cast<size_t>(position % kBlockSize)];
  }

  // What an engine does with a step: copies in order, all writes, commits.
  void EndStep() {
    for (const BlockCopy& copy : copies_) {
      RC_ASSERT(copy.source != copy.destination);
      std::copy_n(slots_[copy.source.value()].begin(), copy.num_tokens,
                  slots_[copy.destination.value()].begin());
    }
    copies_.clear();
    for (const auto& sequence : sequences_) {
      if (sequence->planned > 0) Write(*sequence);
    }
    for (const auto& sequence : sequences_) {
      if (sequence->planned > 0) Commit(*sequence);
    }
    for (const auto& sequence : sequences_) CheckContent(*sequence);
  }

  void Write(ModelSequence& sequence) {
    uint64_t chain = Chain(0, sequence.root);
    for (int64_t position = 0; position < sequence.held.capacity_tokens(); ++position) {
      const bool is_known = position < static_cast<int64_t>(sequence.tokens.size());
      chain = Chain(chain, is_known ? sequence.tokens[static_cast<size_t>(position)] : 99);
      if (position < sequence.held.num_tokens()) continue;
      Slot(sequence, position) = position < sequence.planned ? chain : kGarbage;
    }
  }

  void Commit(ModelSequence& sequence) {
    manager_->Commit(sequence.held, sequence.tokens, sequence.planned);
    RC_ASSERT(sequence.held.num_tokens() == sequence.planned);
    sequence.num_published = sequence.planned;
    sequence.planned = 0;
    const std::vector<int32_t> committed(sequence.tokens.begin(),
                                         sequence.tokens.begin() + sequence.num_published);
    committed_[sequence.root].push_back(committed);
    seen_[sequence.root].push_back(sequence.tokens);
  }

  void CheckContent(const ModelSequence& sequence) {
    uint64_t chain = Chain(0, sequence.root);
    for (int64_t position = 0; position < sequence.held.num_tokens(); ++position) {
      chain = Chain(chain, sequence.tokens[static_cast<size_t>(position)]);
      RC_ASSERT(Slot(sequence, position) == chain);
    }
  }

  void Fork(uint32_t first) {
    ModelSequence* const sequence = Choose(first);
    if (sequence == nullptr || sequence->planned > 0 || sequences_.size() >= kMaxSequences) return;
    auto fork = std::make_unique<ModelSequence>();
    fork->root = sequence->root;
    fork->tokens = sequence->tokens;
    fork->held = manager_->Fork(sequence->held);
    fork->num_published = sequence->num_published;
    RC_ASSERT(fork->held.num_tokens() == sequence->held.num_tokens());
    sequences_.push_back(std::move(fork));
  }

  void Destroy(uint32_t first) {
    if (sequences_.empty()) return;
    const size_t index = first % sequences_.size();
    sequences_.erase(sequences_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  void Truncate(uint32_t first, uint32_t second) {
    ModelSequence* const sequence = Choose(first);
    if (sequence == nullptr || sequence->planned > 0) return;
    const int64_t kept = second % (sequence->held.num_tokens() + 1);
    manager_->Truncate(sequence->held, kept);
    sequence->num_published = std::min(sequence->num_published, kept / kBlockSize * kBlockSize);
    forgot_ = true;
    if (first / kMaxSequences % 2 == 0) {  // and another way from there
      sequence->tokens.resize(static_cast<size_t>(kept));
      sequence->tokens.push_back(static_cast<int32_t>(second % 5));
    } else if (const auto known = static_cast<int64_t>(sequence->tokens.size()); kept < known) {
      Plan(*sequence, known, second % 4);  // the same way again
    }
  }

  void ChangePins(uint32_t first, uint32_t second) {
    if (second % 4 == 0 && !pins_.empty()) {
      const size_t index = first % pins_.size();
      static_cast<void>(manager_->Unpin(pins_[index]));
      pins_.erase(pins_.begin() + static_cast<std::ptrdiff_t>(index));
    } else if (second % 4 == 1) {
      const uint32_t before = manager_->num_available_blocks();
      const uint32_t wanted = first % 3;
      manager_->YieldPins(wanted);
      RC_ASSERT(manager_->num_available_blocks() >= before + wanted ||
                manager_->stats().num_pins == 0);
    } else {
      Pin(static_cast<int>(first % kNumRoots), second);
    }
  }

  void Pin(int root, uint32_t choice) {
    const std::vector<int32_t> prompt = MakePrompt(root, choice, {});
    const auto length = static_cast<int64_t>(prompt.size());
    const PrefixMatch match = manager_->Match(RootName(root), prompt, length);
    PinId pin;
    const int64_t covered = manager_->Pin(RootName(root), prompt, 1 + choice % 50, &pin);
    RC_ASSERT(covered <= match.num_tokens);
    if (covered > 0) pins_.push_back(pin);
  }

  void PassTime(uint32_t first, uint32_t second) {
    now_ms_ += first % 20;
    manager_->SetNow(now_ms_);
    if (second % 50 != 0) return;
    manager_->Reset();
    forgot_ = true;
  }

  KvCacheOptions options_;
  std::unique_ptr<KvCacheManager> manager_;
  std::vector<std::vector<uint64_t>> slots_;               // [num_blocks][kBlockSize]
  std::vector<std::unique_ptr<ModelSequence>> sequences_;  // die before the manager
  std::vector<BlockCopy> copies_;                          // of this step, not carried out yet
  std::vector<PinId> pins_;
  std::map<int, std::vector<std::vector<int32_t>>> seen_;       // by root: to build prompts from
  std::map<int, std::vector<std::vector<int32_t>>> committed_;  // by root
  int64_t now_ms_ = 0;
  bool forgot_ = false;  // content was cut off or reset, besides eviction
};

constexpr int kAllKinds = 13;
constexpr int kWithoutTruncate = 11;

KvCacheOptions SmallOptions(uint32_t num_blocks, EvictionPolicyKind eviction) {
  KvCacheOptions options;
  options.num_blocks = num_blocks;
  options.block_size_tokens = kBlockSize;
  options.max_blocks_per_sequence = 16;
  options.eviction = eviction;
  return options;
}

void RunProgram(const KvCacheOptions& options, const std::vector<Operation>& program) {
  ManagerDriver driver(options);
  for (const Operation& operation : program) {
    driver.Apply(operation);
    driver.CheckBooks();
  }
  driver.Finish();
  RC_TAG(driver.num_hit_tokens() > 0 ? "with hits" : "without hits");
}

RC_GTEST_PROP(ManagerModelTest, EverySlotHoldsItsPrefixInTinyPoolsUnderLru, ()) {
  const auto num_blocks = *rc::gen::inRange<uint32_t>(1, 24);
  RunProgram(SmallOptions(num_blocks, EvictionPolicyKind::kLru), *Programs(kAllKinds));
}

RC_GTEST_PROP(ManagerModelTest, EverySlotHoldsItsPrefixInTinyPoolsUnderTheCostAwarePolicy, ()) {
  const auto num_blocks = *rc::gen::inRange<uint32_t>(1, 24);
  RunProgram(SmallOptions(num_blocks, EvictionPolicyKind::kCostAware), *Programs(kAllKinds));
}

RC_GTEST_PROP(ManagerModelTest, EverythingCommittedIsFoundWhileNothingIsEvicted, ()) {
  RunProgram(SmallOptions(500, EvictionPolicyKind::kLru), *Programs(kWithoutTruncate));
}

RC_GTEST_PROP(ManagerModelTest, WithoutPrefixCachingForksAndRollbacksKeepTheirContent, ()) {
  KvCacheOptions options = SmallOptions(*rc::gen::inRange<uint32_t>(1, 24), {});
  options.enable_prefix_caching = false;
  RunProgram(options, *Programs(kAllKinds));
}

}  // namespace
}  // namespace octavo::kvcache
