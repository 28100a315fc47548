// The pool and its tables against a model of vectors, under random operations. RapidCheck prints
// the seed and the shortest failing sequence.

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "octavo/kvcache/block_pool.h"
#include "octavo/kvcache/block_table.h"

namespace octavo::kvcache {
namespace {

constexpr uint32_t kNumBlocks = 12;
constexpr int32_t kBlockSize = 8;
constexpr size_t kNumTables = 3;

// What the contract says, in the plainest form: a stack of free ids and a count for each id.
struct PoolModel {
  std::vector<uint32_t> free;  // back = next to be allocated
  std::map<uint32_t, int> references;

  PoolModel() {
    for (uint32_t id = kNumBlocks; id-- > 0;) free.push_back(id);
  }
  uint32_t Allocate() {
    const uint32_t id = free.back();
    free.pop_back();
    references[id] = 1;
    return id;
  }
  void Drop(uint32_t id) {
    if (--references[id] > 0) return;
    references.erase(id);
    free.push_back(id);
  }
  // The lowest run of `length` free ids, or an empty one.
  std::vector<uint32_t> AllocateContiguous(uint32_t length) {
    for (uint32_t first = 0; first + length <= kNumBlocks; ++first) {
      std::vector<uint32_t> run;
      for (uint32_t id = first; id < first + length; ++id) {
        if (!references.contains(id)) run.push_back(id);
      }
      if (run.size() != length) continue;
      for (const uint32_t id : run) {
        references[id] = 1;
        std::erase(free, id);
      }
      return run;
    }
    return {};
  }
};

struct Operation {
  int kind;
  uint32_t first;
  uint32_t second;
};

void showValue(const Operation& operation, std::ostream& out) {
  out << "{" << operation.kind << ", " << operation.first << ", " << operation.second << "}";
}

rc::Gen<std::vector<Operation>> Operations(int num_kinds) {
  return rc::gen::container<std::vector<Operation>>(rc::gen::construct<Operation>(
      rc::gen::inRange(0, num_kinds), rc::gen::inRange<uint32_t>(0, 1000),
      rc::gen::inRange<uint32_t>(0, 1000)));
}

// Compares everything that the pool tells with the model.
void ExpectAgreement(const BlockPool& pool, const PoolModel& model) {
  RC_ASSERT(pool.num_free() == model.free.size());
  RC_ASSERT(pool.num_in_use() == model.references.size());
  for (uint32_t id = 0; id < kNumBlocks; ++id) {
    const auto found = model.references.find(id);
    const int expected = found == model.references.end() ? 0 : found->second;
    RC_ASSERT(pool.ref_count(BlockId(id)) == static_cast<uint32_t>(expected));
  }
  const IntegrityReport report = pool.CheckIntegrity();
  if (!report.ok()) RC_FAIL(report.ToString());
}

class PoolDriver {
 public:
  void Apply(const Operation& operation) {
    switch (operation.kind) {
      case 0:
        return Allocate();
      case 1:
        return Share(operation.first);
      case 2:
        return Drop(operation.first);
      case 3:
        return AllocateContiguous(1 + operation.first % 5);
    }
  }
  void Check() const { ExpectAgreement(pool_, model_); }

 private:
  void Allocate() {
    auto block = pool_.Allocate();
    RC_ASSERT(block.has_value() == !model_.free.empty());
    if (!block) return;
    RC_ASSERT(block->id().value() == model_.Allocate());
    held_.push_back(std::move(*block));
  }
  void Share(uint32_t choice) {
    if (held_.empty()) return;
    BlockRef shared = held_[choice % held_.size()].Share();
    ++model_.references[shared.id().value()];
    held_.push_back(std::move(shared));
  }
  void Drop(uint32_t choice) {
    if (held_.empty()) return;
    const size_t index = choice % held_.size();
    model_.Drop(held_[index].id().value());
    held_[index].Reset();
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(index));
  }
  void AllocateContiguous(uint32_t length) {
    auto run = pool_.AllocateContiguous(length);
    const std::vector<uint32_t> expected = model_.AllocateContiguous(length);
    RC_ASSERT(run.has_value() == !expected.empty());
    if (!run) return;
    for (size_t i = 0; i < run->size(); ++i) {
      RC_ASSERT((*run)[i].id().value() == expected[i]);
      held_.push_back(std::move((*run)[i]));
    }
  }

  BlockPool pool_{kNumBlocks};
  PoolModel model_;
  std::vector<BlockRef> held_;  // dies before the pool
};

RC_GTEST_PROP(BlockPoolRandomTest, AgreesWithAStackOfFreeIdsAndAMapOfCounts, ()) {
  const auto operations = *Operations(4);
  PoolDriver driver;
  for (const Operation& operation : operations) {
    driver.Apply(operation);
    driver.Check();
  }
}

class TableDriver {
 public:
  TableDriver() {
    for (size_t i = 0; i < kNumTables; ++i) tables_.emplace_back(&pool_, kBlockSize, kNumBlocks);
    entries_.resize(kNumTables);
    num_tokens_.resize(kNumTables);
  }

  void Apply(const Operation& operation) {
    const size_t t = operation.first % kNumTables;
    const auto within = [&operation](int64_t limit) { return operation.second % (limit + 1); };
    switch (operation.kind) {
      case 0:
        return Grow(t, within(kNumBlocks * kBlockSize / 2));
      case 1:
        num_tokens_[t] += within(tables_[t].capacity_tokens() - num_tokens_[t]);
        return tables_[t].Advance(num_tokens_[t] - tables_[t].num_tokens());
      case 2:
        return Truncate(t, within(num_tokens_[t]));
      case 3:
        return ShareBlock(t, (operation.first / kNumTables) % kNumTables, operation.second);
    }
  }

  void Check() const {
    ExpectAgreement(pool_, model_);
    std::vector<const BlockTable*> pointers;
    for (size_t t = 0; t < kNumTables; ++t) {
      RC_ASSERT(std::ranges::equal(tables_[t].block_ids(), entries_[t]));
      RC_ASSERT(tables_[t].num_tokens() == num_tokens_[t]);
      pointers.push_back(&tables_[t]);
    }
    const IntegrityReport report = pool_.CheckIntegrity(pointers);
    if (!report.ok()) RC_FAIL(report.ToString());
  }

 private:
  void Grow(size_t t, int64_t num_tokens) {
    const auto needed = static_cast<size_t>((num_tokens + kBlockSize - 1) / kBlockSize);
    const size_t missing = needed > entries_[t].size() ? needed - entries_[t].size() : 0;
    const bool fits = missing <= model_.free.size();
    RC_ASSERT(tables_[t].EnsureCapacity(num_tokens) == fits);
    for (size_t i = 0; fits && i < missing; ++i) entries_[t].push_back(model_.Allocate());
  }
  void Truncate(size_t t, int64_t num_tokens) {
    tables_[t].Truncate(num_tokens);
    num_tokens_[t] = num_tokens;
    const auto kept = static_cast<size_t>((num_tokens + kBlockSize - 1) / kBlockSize);
    while (entries_[t].size() > kept) {
      model_.Drop(entries_[t].back());
      entries_[t].pop_back();
    }
  }
  void ShareBlock(size_t to, size_t from, uint32_t choice) {
    if (entries_[from].empty() || entries_[to].size() >= kNumBlocks) return;
    const size_t index = choice % entries_[from].size();
    tables_[to].Append(tables_[from].block(index).Share());
    const uint32_t id = entries_[from][index];
    ++model_.references[id];
    entries_[to].push_back(id);
  }

  BlockPool pool_{kNumBlocks};
  PoolModel model_;
  std::vector<BlockTable> tables_;              // dies before the pool
  std::vector<std::vector<uint32_t>> entries_;  // [table]: what its block_ids must be
  std::vector<int64_t> num_tokens_;             // [table]
};

RC_GTEST_PROP(BlockTableRandomTest, TablesAgreeWithListsAndEveryReferenceIsAnEntry, ()) {
  const auto operations = *Operations(4);
  TableDriver driver;
  for (const Operation& operation : operations) {
    driver.Apply(operation);
    driver.Check();
  }
}

}  // namespace
}  // namespace octavo::kvcache
