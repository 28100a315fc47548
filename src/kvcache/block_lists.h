#pragma once

// Purpose:    a few doubly linked lists over block ids, each block in at most one: what eviction
//             orders are made of.
// Ownership:  owns its links, sized once.
// Threading:  as its owner.
// Invariants: all operations are O(1) and allocate nothing. The state is plain data, so that audits
//             are functions of it.

#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"
#include "octavo/kvcache/block_id.h"

namespace octavo::kvcache {

inline constexpr uint32_t kNoList = 0xffffffff;

struct BlockListsState {
  struct Link {
    uint32_t list = kNoList;  // kNoList: in none
    uint32_t previous = kNoBlock;
    uint32_t next = kNoBlock;
  };
  struct Ends {
    uint32_t first = kNoBlock;
    uint32_t last = kNoBlock;
    uint32_t size = 0;
  };
  std::vector<Link> links;  // [num_blocks]
  std::vector<Ends> lists;  // [num_lists]
};

class BlockLists {
 public:
  BlockLists(uint32_t num_blocks, uint32_t num_lists) {
    state_.links.resize(num_blocks);
    state_.lists.resize(num_lists);
  }

  // REQUIRES: the block is in no list.
  void PushBack(uint32_t list, uint32_t block);
  // REQUIRES: the block is in a list.
  void Remove(uint32_t block);

  bool contains(uint32_t block) const { return state_.links[block].list != kNoList; }
  uint32_t list_of(uint32_t block) const { return state_.links[block].list; }
  uint32_t first(uint32_t list) const { return state_.lists[list].first; }  // kNoBlock: empty
  uint32_t size(uint32_t list) const { return state_.lists[list].size; }
  const BlockListsState& state() const { return state_; }

 private:
  BlockListsState state_;
};

inline void BlockLists::PushBack(uint32_t list, uint32_t block) {
  BlockListsState::Link& link = state_.links[block];
  OCTAVO_CHECK(link.list == kNoList, "a block is in one list at most");
  BlockListsState::Ends& ends = state_.lists[list];
  link = {list, ends.last, kNoBlock};
  (ends.last == kNoBlock ? ends.first : state_.links[ends.last].next) = block;
  ends.last = block;
  ++ends.size;
}

inline void BlockLists::Remove(uint32_t block) {
  const BlockListsState::Link link = std::exchange(state_.links[block], {});
  OCTAVO_CHECK(link.list != kNoList, "a block leaves the list that it is in");
  BlockListsState::Ends& ends = state_.lists[link.list];
  (link.previous == kNoBlock ? ends.first : state_.links[link.previous].next) = link.next;
  (link.next == kNoBlock ? ends.last : state_.links[link.next].previous) = link.previous;
  --ends.size;
}

}  // namespace octavo::kvcache
