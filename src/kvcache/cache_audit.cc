#include "kvcache/cache_audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace octavo::kvcache {
namespace {

using Node = PrefixTreeState::Node;

// Walks every treap from its parent and notes what it meets.
class TreeAuditor {
 public:
  TreeAuditor(const BlockPoolState& pool, const PrefixTreeState& tree)
      : pool_(pool), tree_(tree), is_reached_(tree.nodes.size()) {}

  IntegrityReport Run() {
    if (tree_.nodes.size() != pool_.blocks.size()) {
      report_.Add(fmt::format("the tree knows {} blocks, the pool {}", tree_.nodes.size(),
                              pool_.blocks.size()));
      return report_;
    }
    for (uint32_t root = 0; root < tree_.roots.size(); ++root) AuditRoot(root);
    for (uint32_t block = 0; block < tree_.nodes.size(); ++block) {
      if (tree_.nodes[block].first_child != kNoBlock) {
        AuditChildren(ParentOfBlock(block), tree_.nodes[block].first_child);
      }
    }
    for (uint32_t block = 0; block < tree_.nodes.size(); ++block) AuditBlock(block);
    return report_;
  }

 private:
  void AuditRoot(uint32_t root) {
    const PrefixTreeState::Root& node = tree_.roots[root];
    const bool has_use = node.first_child != kNoBlock || node.num_retained > 0;
    if (node.is_used != has_use) {
      report_.Add(fmt::format("root {} is {}, it has {} holders and {} content", root,
                              node.is_used ? "known" : "unknown", node.num_retained,
                              node.first_child == kNoBlock ? "no" : "some"));
    }
    if (node.first_child != kNoBlock) AuditChildren(ParentOfRoot(root), node.first_child);
  }

  // In order: left, node, right, without recursion.
  void AuditChildren(ParentId parent, uint32_t top) {
    std::vector<uint32_t> open;
    uint32_t previous = kNoBlock;
    for (uint32_t block = top; block != kNoBlock || !open.empty();) {
      while (block != kNoBlock) {
        if (!Reach(block, parent)) return;
        open.push_back(block);
        block = tree_.nodes[block].left;
      }
      block = open.back();
      open.pop_back();
      if (previous != kNoBlock) AuditOrder(previous, block);
      previous = block;
      block = tree_.nodes[block].right;
    }
  }

  bool Reach(uint32_t block, ParentId parent) {
    if (block >= tree_.nodes.size()) {
      report_.Add(fmt::format("the tree leads to block {}, it has {}", block, tree_.nodes.size()));
      return false;
    }
    if (is_reached_[block]) {
      report_.Add(fmt::format("the tree leads to block {} twice", block));
      return false;
    }
    is_reached_[block] = true;
    if (tree_.nodes[block].parent != parent) {
      report_.Add(fmt::format("block {} is among the children of {}, its own link says {}", block,
                              parent.value(), tree_.nodes[block].parent.value()));
    }
    return true;
  }

  std::span<const int32_t> Tokens(uint32_t block) const {
    const auto block_size = static_cast<size_t>(tree_.block_size_tokens);
    const int32_t held = std::clamp(tree_.nodes[block].num_tokens, 0, tree_.block_size_tokens);
    return {tree_.tokens.data() + block * block_size, static_cast<size_t>(held)};
  }

  void AuditOrder(uint32_t block, uint32_t next) {
    const auto first = Tokens(block);
    const auto second = Tokens(next);
    const bool is_sealed = first.size() == static_cast<size_t>(tree_.block_size_tokens);
    const auto order = std::lexicographical_compare_three_way(first.begin(), first.end(),
                                                              second.begin(), second.end());
    if (order > 0) report_.Add(fmt::format("blocks {} and {} are out of order", block, next));
    if (order == 0 && is_sealed) {
      report_.Add(fmt::format("blocks {} and {} hold the same content", block, next));
    }
  }

  void AuditBlock(uint32_t block) {
    const Node& node = tree_.nodes[block];
    const BlockPoolState::Block& state = pool_.blocks[block];
    if ((node.num_tokens > 0) != is_reached_[block]) {
      report_.Add(fmt::format("block {} holds {} tokens and is {} the tree", block, node.num_tokens,
                              is_reached_[block] ? "in" : "not in"));
    }
    if (node.num_tokens < 0 || node.num_tokens > tree_.block_size_tokens) {
      report_.Add(fmt::format("block {} holds {} tokens, at most {} fit", block, node.num_tokens,
                              tree_.block_size_tokens));
      return;
    }
    if (node.num_tokens == 0) {
      if (state.is_evictable) report_.Add(fmt::format("block {} is kept without content", block));
      return;
    }
    if (state.ref_count == 0 && !state.is_evictable) {
      report_.Add(fmt::format("block {} is free and has content", block));
    }
    if (node.first_child != kNoBlock && node.num_tokens != tree_.block_size_tokens) {
      report_.Add(fmt::format("block {} has children and is not full", block));
    }
    if (!IsRoot(node.parent)) AuditParent(block, node.parent.value());
    AuditHash(block);
  }

  void AuditParent(uint32_t block, uint32_t parent) {
    if (parent >= tree_.nodes.size()) return;  // found above
    if (pool_.blocks[block].ref_count > 0 && pool_.blocks[parent].ref_count == 0) {
      report_.Add(fmt::format("block {} is in use, its parent {} is not", block, parent));
    }
    if (tree_.nodes[block].block_index != tree_.nodes[parent].block_index + 1) {
      report_.Add(fmt::format("block {} is number {}, its parent {} is number {}", block,
                              tree_.nodes[block].block_index, parent,
                              tree_.nodes[parent].block_index));
    }
  }

  void AuditHash(uint32_t block) {
    const Node& node = tree_.nodes[block];
    if (node.num_tokens != tree_.block_size_tokens) return;
    const uint32_t parent = node.parent.value();
    std::optional<uint64_t> above;
    if (IsRoot(node.parent)) {
      if (parent - kFirstRoot < tree_.roots.size()) above = tree_.roots[parent - kFirstRoot].hash;
    } else if (parent < tree_.nodes.size()) {
      above = tree_.nodes[parent].hash;
    }
    if (above && node.hash != PrefixTree::Hash(*above, Tokens(block))) {
      report_.Add(fmt::format("block {} has another hash than its tokens", block));
    }
  }

  const BlockPoolState& pool_;
  const PrefixTreeState& tree_;
  std::vector<bool> is_reached_;
  IntegrityReport report_;
};

constexpr uint64_t kNoPlace = ~uint64_t{0};  // on no list

// Walks one list; notes the places of its blocks: by list, and by position on it.
void AuditList(const BlockListsState& order, uint32_t list, std::vector<uint64_t>& places,
               IntegrityReport& report) {
  uint32_t previous = kNoBlock;
  uint32_t length = 0;
  for (uint32_t block = order.lists[list].first; block != kNoBlock;) {
    if (block >= order.links.size() || places[block] != kNoPlace) {
      report.Add(fmt::format("eviction list {} leads to block {}, which it cannot", list, block));
      return;
    }
    const BlockListsState::Link& link = order.links[block];
    if (link.list != list || link.previous != previous) {
      report.Add(fmt::format("block {} follows {} on eviction list {}, its links say {} on {}",
                             block, previous, list, link.previous, link.list));
    }
    places[block] = uint64_t{list} << 32 | length;
    ++length;
    previous = block;
    block = link.next;
  }
  if (order.lists[list].last != previous) {
    report.Add(fmt::format("eviction list {} ends with block {}, its end says {}", list, previous,
                           order.lists[list].last));
  }
  if (order.lists[list].size != length) {
    report.Add(fmt::format("eviction list {} holds {} blocks, its size says {}", list, length,
                           order.lists[list].size));
  }
}

}  // namespace

IntegrityReport AuditTree(const BlockPoolState& pool, const PrefixTreeState& tree) {
  return TreeAuditor(pool, tree).Run();
}

IntegrityReport AuditEvictionOrder(const BlockPoolState& pool, const PrefixTreeState& tree,
                                   const BlockListsState& order, const PinRegistryState& pins) {
  IntegrityReport report;
  std::vector<uint64_t> places(pool.blocks.size(), kNoPlace);
  if (order.links.size() != places.size() || pins.num_pins.size() != places.size() ||
      tree.nodes.size() != places.size()) {
    report.Add("the tree, the eviction order or the pins are of another pool");
    return report;
  }
  for (uint32_t list = 0; list < order.lists.size(); ++list) {
    AuditList(order, list, places, report);
  }
  for (size_t block = 0; block < places.size(); ++block) {
    const bool is_listed = places[block] != kNoPlace;
    const bool should_be = pool.blocks[block].is_evictable && pins.num_pins[block] == 0;
    if (is_listed != should_be) {
      report.Add(fmt::format("block {} is {} with {} pins, and {} the eviction order", block,
                             pool.blocks[block].is_evictable ? "evictable" : "not evictable",
                             pins.num_pins[block], is_listed ? "in" : "not in"));
    }
    const uint32_t parent = tree.nodes[block].parent.value();
    const bool has_both = is_listed && parent < places.size() && places[parent] != kNoPlace;
    if (has_both && places[block] > places[parent]) {
      report.Add(fmt::format("block {} is evicted after its parent {}", block, parent));
    }
  }
  return report;
}

IntegrityReport AuditPins(const PrefixTreeState& tree, const PinRegistryState& pins) {
  IntegrityReport report;
  std::vector<uint32_t> num_pins(tree.nodes.size());
  for (const PinRegistryState::Pin& pin : pins.pins) {
    uint32_t block = pin.last_block;
    size_t length = 0;
    while (block < num_pins.size() && ++length <= num_pins.size()) {
      if (tree.nodes[block].num_tokens == 0) {
        report.Add(fmt::format("pin {} covers block {}, which has no content", pin.id, block));
      }
      ++num_pins[block];
      const ParentId parent = tree.nodes[block].parent;
      block = IsRoot(parent) ? kNoBlock : parent.value();
    }
    if (block != kNoBlock) report.Add(fmt::format("pin {} does not end at a root", pin.id));
  }
  uint32_t num_pinned_blocks = 0;
  for (size_t block = 0; block < num_pins.size() && block < pins.num_pins.size(); ++block) {
    if (pins.num_pins[block] > 0) ++num_pinned_blocks;
    if (num_pins[block] != pins.num_pins[block]) {
      report.Add(fmt::format("block {} has {} pins, {} cover it", block, pins.num_pins[block],
                             num_pins[block]));
    }
  }
  if (num_pinned_blocks != pins.num_pinned_blocks) {
    report.Add(fmt::format("num_pinned_blocks is {}, {} blocks are", pins.num_pinned_blocks,
                           num_pinned_blocks));
  }
  return report;
}

IntegrityReport AuditTable(const PrefixTreeState& tree, uint32_t root,
                           std::span<const uint32_t> block_ids, int64_t num_tokens) {
  IntegrityReport report;
  ParentId parent = ParentOfRoot(root);
  for (size_t i = 0; i < block_ids.size(); ++i) {
    const int64_t here = std::clamp<int64_t>(
        num_tokens - static_cast<int64_t>(i) * tree.block_size_tokens, 0, tree.block_size_tokens);
    if (block_ids[i] >= tree.nodes.size()) return report;  // AuditReferences finds it
    const Node& node = tree.nodes[block_ids[i]];
    const bool is_private = node.num_tokens == 0 && here < tree.block_size_tokens;
    if (!is_private && (node.num_tokens < here || here == 0)) {
      report.Add(fmt::format("a table has {} tokens in block {}, which is known for {}", here,
                             block_ids[i], node.num_tokens));
    }
    if (node.num_tokens > 0 && node.parent != parent) {
      report.Add(fmt::format("block {} follows {} in a table, its parent is {}", block_ids[i],
                             parent.value(), node.parent.value()));
    }
    parent = ParentOfBlock(block_ids[i]);
  }
  return report;
}

}  // namespace octavo::kvcache
