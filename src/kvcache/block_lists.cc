#include "kvcache/block_lists.h"

#include <utility>

#include "base/check.h"

namespace octavo::kvcache {

BlockLists::BlockLists(uint32_t num_blocks, uint32_t num_lists) {
  state_.links.resize(num_blocks);
  state_.lists.resize(num_lists);
}

void BlockLists::PushBack(uint32_t list, uint32_t block) {
  BlockListsState::Link& link = state_.links[block];
  OCTAVO_CHECK(link.list == kNoList, "a block is in one list at most");
  BlockListsState::Ends& ends = state_.lists[list];
  link = {list, ends.last, kNoBlock};
  (ends.last == kNoBlock ? ends.first : state_.links[ends.last].next) = block;
  ends.last = block;
  ++ends.size;
}

void BlockLists::Remove(uint32_t block) {
  const BlockListsState::Link link = std::exchange(state_.links[block], {});
  OCTAVO_CHECK(link.list != kNoList, "a block leaves the list that it is in");
  BlockListsState::Ends& ends = state_.lists[link.list];
  (link.previous == kNoBlock ? ends.first : state_.links[link.previous].next) = link.next;
  (link.next == kNoBlock ? ends.last : state_.links[link.next].previous) = link.previous;
  --ends.size;
}

}  // namespace octavo::kvcache
