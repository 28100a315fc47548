#include "kvcache/prefix_tree.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace octavo::kvcache {
namespace {

// The heap order of the treaps: a fixed mix of the id, so that no order of insertion makes them
// deep and equal runs build equal trees.
uint32_t Priority(uint32_t block) {
  uint32_t mixed = block * 0x9e3779b1u;
  mixed = (mixed ^ (mixed >> 15)) * 0x85ebca77u;
  return mixed ^ (mixed >> 13);
}

bool IsAbove(uint32_t block, uint32_t other) {
  const uint32_t priority = Priority(block);
  const uint32_t other_priority = Priority(other);
  return priority != other_priority ? priority > other_priority : block < other;
}

int32_t CommonPrefix(std::span<const int32_t> first, std::span<const int32_t> second) {
  const auto pair = std::ranges::mismatch(first, second);
  return static_cast<int32_t>(pair.in1 - first.begin());
}

}  // namespace

uint64_t PrefixTree::HashOfKey(std::string_view key) { return XXH3_64bits(key.data(), key.size()); }

size_t PrefixTree::KeyHash::operator()(std::string_view key) const { return HashOfKey(key); }

PrefixTree::PrefixTree(uint32_t num_blocks, int32_t block_size_tokens) {
  OCTAVO_CHECK(num_blocks < kFirstRoot, "block ids and roots share one range");
  state_.block_size_tokens = block_size_tokens;
  state_.nodes.resize(num_blocks);
  state_.tokens.resize(size_t{num_blocks} * static_cast<size_t>(block_size_tokens));
}

uint32_t PrefixTree::FindRoot(std::string_view key) const {
  const auto found = root_of_key_.find(key);
  return found == root_of_key_.end() ? kNoRoot : found->second;
}

uint32_t PrefixTree::RetainRoot(std::string_view key) {
  uint32_t root = FindRoot(key);
  if (root == kNoRoot) {
    if (free_roots_.empty()) {
      OCTAVO_CHECK(state_.roots.size() < kFirstRoot - 1, "too many roots");
      free_roots_.push_back(static_cast<uint32_t>(state_.roots.size()));
      state_.roots.emplace_back();
    }
    root = free_roots_.back();
    free_roots_.pop_back();
    state_.roots[root] = {std::string(key), HashOfKey(key), kNoBlock, 0, true};
    root_of_key_.emplace(key, root);
  }
  RetainRoot(root);
  return root;
}

void PrefixTree::ReleaseRoot(uint32_t root) {
  OCTAVO_CHECK(state_.roots[root].num_retained > 0, "a root is released once too often");
  --state_.roots[root].num_retained;
  DropRootIfUnused(root);
}

void PrefixTree::DropRootIfUnused(uint32_t root) {
  PrefixTreeState::Root& unused = state_.roots[root];
  if (unused.num_retained > 0 || unused.first_child != kNoBlock) return;
  root_of_key_.erase(root_of_key_.find(std::string_view(unused.key)));
  unused = {};
  free_roots_.push_back(root);
}

PrefixTree::Closest PrefixTree::FindClosest(ParentId parent, std::span<const int32_t> query) const {
  OCTAVO_DCHECK(!query.empty() && query.size() <= static_cast<size_t>(state_.block_size_tokens),
                "a query is part of one block");
  const auto length = static_cast<int32_t>(query.size());
  Closest closest;
  for (uint32_t block = first_child(parent); block != kNoBlock;) {
    const PrefixTreeState::Node& node = state_.nodes[block];
    const std::span<const int32_t> held = tokens(block);
    const int32_t common = CommonPrefix(held, query);
    const bool holds_no_more = common == node.num_tokens;
    if (common > closest.num_tokens || (common == closest.num_tokens && holds_no_more)) {
      if (common > 0) closest = {block, common};
    }
    if (common == length) {
      if (holds_no_more) break;
      block = node.left;  // one that ends where the query ends comes before
    } else if (holds_no_more) {
      block = node.right;
    } else {
      const auto at = static_cast<size_t>(common);
      block = query[at] < held[at] ? node.left : node.right;
    }
  }
  return closest;
}

uint32_t PrefixTree::FindSealed(ParentId parent, std::span<const int32_t> query) const {
  OCTAVO_DCHECK(query.size() == static_cast<size_t>(state_.block_size_tokens),
                "a sealed block is full");
  for (uint32_t block = first_child(parent); block != kNoBlock;) {
    const PrefixTreeState::Node& node = state_.nodes[block];
    const std::span<const int32_t> held = tokens(block);
    const auto common = static_cast<size_t>(CommonPrefix(held, query));
    if (common == query.size()) return block;
    block = common < held.size() && query[common] < held[common] ? node.left : node.right;
  }
  return kNoBlock;
}

void PrefixTree::StoreTokens(uint32_t block, size_t offset, std::span<const int32_t> tokens) {
  const size_t first = size_t{block} * static_cast<size_t>(state_.block_size_tokens) + offset;
  std::memcpy(state_.tokens.data() + first, tokens.data(), tokens.size_bytes());
}

void PrefixTree::Insert(uint32_t block, ParentId parent, std::span<const int32_t> tokens) {
  PrefixTreeState::Node& node = state_.nodes[block];
  OCTAVO_CHECK(node.num_tokens == 0 && !tokens.empty(), "a block gets content once");
  OCTAVO_CHECK(IsRoot(parent) || is_sealed(parent.value()), "content follows a sealed block");
  node.parent = parent;
  node.block_index = IsRoot(parent) ? 0 : state_.nodes[parent.value()].block_index + 1;
  StoreTokens(block, 0, tokens);
  node.num_tokens = static_cast<int32_t>(tokens.size());
  if (is_sealed(block)) node.hash = Hash(hash(parent), tokens);
  Link(block);
}

void PrefixTree::Extend(uint32_t block, std::span<const int32_t> more) {
  PrefixTreeState::Node& node = state_.nodes[block];
  const auto held = static_cast<size_t>(node.num_tokens);
  const auto block_size = static_cast<size_t>(state_.block_size_tokens);
  OCTAVO_CHECK(held > 0 && more.size() <= block_size - held, "the tokens do not fit the block");
  const bool is_alone =
      first_child(node.parent) == block && node.left == kNoBlock && node.right == kNoBlock;
  if (!is_alone) Unlink(block);
  StoreTokens(block, held, more);
  node.num_tokens += static_cast<int32_t>(more.size());
  if (is_sealed(block)) node.hash = Hash(hash(node.parent), tokens(block));
  if (!is_alone) Link(block);
}

void PrefixTree::Cut(uint32_t block, int32_t num_tokens) {
  PrefixTreeState::Node& node = state_.nodes[block];
  OCTAVO_CHECK(node.first_child == kNoBlock, "content that others follow is not cut");
  OCTAVO_CHECK(num_tokens > 0 && num_tokens < node.num_tokens, "a cut keeps some and drops some");
  Unlink(block);
  node.num_tokens = num_tokens;
  node.hash = 0;
  Link(block);
}

void PrefixTree::Remove(uint32_t block) {
  PrefixTreeState::Node& node = state_.nodes[block];
  OCTAVO_CHECK(node.num_tokens > 0, "a block loses content that it has");
  OCTAVO_CHECK(node.first_child == kNoBlock, "content that others follow is not removed");
  Unlink(block);
  const ParentId parent = node.parent;
  node = {};
  if (IsRoot(parent)) DropRootIfUnused(parent.value() - kFirstRoot);
}

uint64_t PrefixTree::Hash(uint64_t parent_hash, std::span<const int32_t> tokens) {
  return XXH3_64bits_withSeed(tokens.data(), tokens.size_bytes(), parent_hash);
}

bool PrefixTree::Precedes(uint32_t block, uint32_t other) const {
  const std::span<const int32_t> first = tokens(block);
  const std::span<const int32_t> second = tokens(other);
  const auto common = static_cast<size_t>(CommonPrefix(first, second));
  if (common < first.size() && common < second.size()) return first[common] < second[common];
  return first.size() != second.size() ? first.size() < second.size() : block < other;
}

void PrefixTree::Link(uint32_t block) {
  std::vector<PrefixTreeState::Node>& nodes = state_.nodes;
  // Down to the first sibling that belongs below this block ...
  uint32_t* link = &first_child(nodes[block].parent);
  while (*link != kNoBlock && IsAbove(*link, block)) {
    link = Precedes(block, *link) ? &nodes[*link].left : &nodes[*link].right;
  }
  // ... whose subtree is split around it.
  uint32_t rest = std::exchange(*link, block);
  uint32_t* left = &nodes[block].left;
  uint32_t* right = &nodes[block].right;
  while (rest != kNoBlock) {
    if (Precedes(rest, block)) {
      *left = rest;
      left = &nodes[rest].right;
      rest = *left;
    } else {
      *right = rest;
      right = &nodes[rest].left;
      rest = *right;
    }
  }
  *left = kNoBlock;
  *right = kNoBlock;
}

void PrefixTree::Unlink(uint32_t block) {
  std::vector<PrefixTreeState::Node>& nodes = state_.nodes;
  uint32_t* link = &first_child(nodes[block].parent);
  while (*link != block) {
    OCTAVO_CHECK(*link != kNoBlock, "a node is among its parent's children");
    link = Precedes(block, *link) ? &nodes[*link].left : &nodes[*link].right;
  }
  // Its two subtrees are merged into its place.
  uint32_t left = std::exchange(nodes[block].left, kNoBlock);
  uint32_t right = std::exchange(nodes[block].right, kNoBlock);
  while (left != kNoBlock && right != kNoBlock) {
    if (IsAbove(left, right)) {
      *link = left;
      link = &nodes[left].right;
      left = *link;
    } else {
      *link = right;
      link = &nodes[right].left;
      right = *link;
    }
  }
  *link = left != kNoBlock ? left : right;
}

}  // namespace octavo::kvcache
