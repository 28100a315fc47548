#pragma once

// Purpose:    the merge loop that byte-level BPE and SentencePiece share: joins neighbouring
//             symbols, always the pair with the best priority (of equal ones the leftmost), until
//             no pair can be joined.
// Ownership:  owns its scratch memory, which later words use again; the bytes stay the caller's.
// Threading:  one thread at a time.
// Invariants: O(n log n) in the number of symbols: a heap of pairs and a linked list of symbols.
//             The symbols cover the word.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "octavo/types.h"

namespace octavo::text {

struct Symbol {
  uint32_t begin = 0;      // byte offset in the word
  uint32_t num_bytes = 0;  // 0 = joined to the symbol on its left
  TokenId id = kNoToken;   // kNoToken = the vocabulary has no such token
};

struct Merge {
  uint32_t priority = 0;  // the lowest goes first; below PairMerger::kNever
  TokenId id = kNoToken;  // of the joined symbol
};

class PairMerger {
 public:
  static constexpr uint32_t kNever = std::numeric_limits<uint32_t>::max();

  void Clear() {
    symbols_.clear();
    links_.clear();
  }
  void Add(const Symbol& symbol) { symbols_.push_back(symbol); }

  // `find(left, right)` gives the Merge of two neighbours, if there is one. REQUIRES: fewer than
  // 2^31 symbols.
  template <typename Find>
  void Run(const Find& find);

  // After Run: every symbol that is left, in order. Before: those that were added.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (const Symbol& symbol : symbols_) {
      if (symbol.num_bytes != 0) visit(symbol);
    }
  }

 private:
  struct Link {
    int32_t previous = -1;  // -1 = none
    int32_t next = -1;
    uint32_t priority = kNever;  // of this symbol joined with the next one
    TokenId merged = kNoToken;
  };

  template <typename Find>
  void Update(int32_t left, const Find& find);

  std::vector<Symbol> symbols_;
  std::vector<Link> links_;
  // priority << 32 | position of the left symbol. An entry is stale if the link's priority has
  // changed since.
  std::vector<uint64_t> heap_;
};

template <typename Find>
void PairMerger::Update(int32_t left, const Find& find) {
  if (left < 0) return;
  Link& link = links_[static_cast<size_t>(left)];
  link.priority = kNever;
  if (link.next < 0) return;
  const std::optional<Merge> merge =
      find(symbols_[static_cast<size_t>(left)], symbols_[static_cast<size_t>(link.next)]);
  if (!merge.has_value()) return;
  link.priority = merge->priority;
  link.merged = merge->id;
  heap_.push_back(uint64_t{merge->priority} << 32 | static_cast<uint32_t>(left));
}

template <typename Find>
void PairMerger::Run(const Find& find) {
  const auto num_symbols = static_cast<int32_t>(symbols_.size());
  links_.resize(symbols_.size());
  heap_.clear();
  for (int32_t i = 0; i < num_symbols; ++i) {
    links_[static_cast<size_t>(i)] = {i - 1, i + 1 < num_symbols ? i + 1 : -1, kNever, kNoToken};
    Update(i, find);
  }
  std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  const auto update_and_sift = [&](int32_t left) {
    const size_t size = heap_.size();
    Update(left, find);
    if (heap_.size() > size) std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  };
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const uint64_t entry = heap_.back();
    heap_.pop_back();
    const auto left = static_cast<int32_t>(entry & 0xFFFFFFFF);
    Link& link = links_[static_cast<size_t>(left)];
    if (link.priority != static_cast<uint32_t>(entry >> 32)) continue;

    Symbol& symbol = symbols_[static_cast<size_t>(left)];
    Symbol& joined = symbols_[static_cast<size_t>(link.next)];
    Link& joined_link = links_[static_cast<size_t>(link.next)];
    symbol.id = link.merged;
    symbol.num_bytes += joined.num_bytes;
    joined.num_bytes = 0;
    joined_link.priority = kNever;
    link.next = joined_link.next;
    if (link.next >= 0) links_[static_cast<size_t>(link.next)].previous = left;
    update_and_sift(left);
    update_and_sift(link.previous);
  }
}

}  // namespace octavo::text
