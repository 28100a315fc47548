#pragma once

// Purpose:    which content lies in which block: for each root a tree of blocks, found by the
//             tokens themselves. Knows no references and no eviction.
// Ownership:  owns nodes and tokens, sized once; roots come and go.
// Threading:  as its owner.
// Invariants: a node is a block with content: at least one token, and its parent's content before
//             it. Only a full ("sealed") node has children. The children of one parent form a
//             treap (a search tree by tokens, a heap by a mix of the block's id), so that the child
//             which shares the longest prefix with a query is on the path down: O(log children)
//             comparisons. Sealed siblings differ; unsealed ones may be equal or a prefix of
//             others. A root lives while it is retained or has a child. Nothing but a new root
//             allocates memory. See docs/decisions/0004-prefix-tree.md.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "octavo/kvcache/block_id.h"

namespace octavo::kvcache {

// The parent of a node: a block, or a root.
using ParentId = StrongId<struct ParentIdTag, uint32_t>;

inline constexpr uint32_t kFirstRoot = 0x80000000;  // values from here on are roots
inline constexpr uint32_t kNoRoot = 0xffffffff;

constexpr ParentId ParentOfBlock(uint32_t block) { return ParentId(block); }
constexpr ParentId ParentOfRoot(uint32_t root) { return ParentId(kFirstRoot + root); }
constexpr bool IsRoot(ParentId parent) { return parent.value() >= kFirstRoot; }

struct PrefixTreeState {
  struct Node {
    uint64_t hash = 0;  // sealed: of all tokens from the root on, chained
    ParentId parent;
    uint32_t first_child = kNoBlock;  // top of the treap of its children
    uint32_t left = kNoBlock;         // in the treap of its siblings
    uint32_t right = kNoBlock;
    uint32_t block_index = 0;  // its position in a block table
    int32_t num_tokens = 0;    // 0: this block has no content
  };
  struct Root {
    std::string key;
    uint64_t hash = 0;
    uint32_t first_child = kNoBlock;
    uint32_t num_retained = 0;
    bool is_used = false;
  };
  int32_t block_size_tokens = 0;
  std::vector<Node> nodes;      // [num_blocks]
  std::vector<int32_t> tokens;  // [num_blocks, block_size_tokens]
  std::vector<Root> roots;      // some unused
};

class PrefixTree {
 public:
  PrefixTree(uint32_t num_blocks, int32_t block_size_tokens);

  // ---- Roots.
  uint32_t FindRoot(std::string_view key) const;  // kNoRoot: unknown
  uint32_t RetainRoot(std::string_view key);      // makes it if need be
  void RetainRoot(uint32_t root) { ++state_.roots[root].num_retained; }
  void ReleaseRoot(uint32_t root);
  uint32_t num_roots() const { return static_cast<uint32_t>(root_of_key_.size()); }

  // ---- Search.
  struct Closest {
    uint32_t block = kNoBlock;
    int32_t num_tokens = 0;  // how many leading tokens it shares with the query, at least 1
  };
  // The child that shares most leading tokens with `tokens` (1 to block_size_tokens of them);
  // among equals one that holds no more than these. kNoBlock: none shares any.
  Closest FindClosest(ParentId parent, std::span<const int32_t> tokens) const;
  // The sealed child that holds exactly `tokens`; kNoBlock: none.
  uint32_t FindSealed(ParentId parent, std::span<const int32_t> tokens) const;

  // ---- Changes.
  // `block` holds `tokens` now, after the content of `parent`. REQUIRES: it has no content; a
  // parent block is sealed; no sealed sibling is equal.
  void Insert(uint32_t block, ParentId parent, std::span<const int32_t> tokens);
  // `block` holds these tokens as well. REQUIRES: unsealed; they fit.
  void Extend(uint32_t block, std::span<const int32_t> tokens);
  // `block` holds its first num_tokens tokens only. REQUIRES: no children; fewer than it holds.
  void Cut(uint32_t block, int32_t num_tokens);
  // `block` has no content. REQUIRES: it has some; no children.
  void Remove(uint32_t block);

  // ---- Questions about a node.
  bool contains(uint32_t block) const { return state_.nodes[block].num_tokens > 0; }
  bool is_sealed(uint32_t block) const { return num_tokens(block) == state_.block_size_tokens; }
  bool has_children(uint32_t block) const { return state_.nodes[block].first_child != kNoBlock; }
  int32_t num_tokens(uint32_t block) const { return state_.nodes[block].num_tokens; }
  ParentId parent(uint32_t block) const { return state_.nodes[block].parent; }
  // kNoBlock when the parent is a root.
  uint32_t parent_block(uint32_t block) const {
    const ParentId above = state_.nodes[block].parent;
    return IsRoot(above) ? kNoBlock : above.value();
  }
  uint32_t block_index(uint32_t block) const { return state_.nodes[block].block_index; }
  std::span<const int32_t> tokens(uint32_t block) const {  // [num_tokens(block)]
    const auto block_size = static_cast<size_t>(state_.block_size_tokens);
    return {state_.tokens.data() + block * block_size, static_cast<size_t>(num_tokens(block))};
  }
  uint64_t hash(ParentId parent) const {  // a root's, or a sealed block's
    return IsRoot(parent) ? state_.roots[parent.value() - kFirstRoot].hash
                          : state_.nodes[parent.value()].hash;
  }
  static uint64_t HashOfKey(std::string_view key);
  // The chained hash of a block of these tokens.
  static uint64_t Hash(uint64_t parent_hash, std::span<const int32_t> tokens);

  const PrefixTreeState& state() const { return state_; }

 private:
  // Looks a key up without making a string of it.
  struct KeyHash {
    using is_transparent = void;
    size_t operator()(std::string_view key) const;
  };

  uint32_t& first_child(ParentId parent) {
    return IsRoot(parent) ? state_.roots[parent.value() - kFirstRoot].first_child
                          : state_.nodes[parent.value()].first_child;
  }
  uint32_t first_child(ParentId parent) const {
    return IsRoot(parent) ? state_.roots[parent.value() - kFirstRoot].first_child
                          : state_.nodes[parent.value()].first_child;
  }
  void StoreTokens(uint32_t block, size_t offset, std::span<const int32_t> tokens);
  void Link(uint32_t block);
  void Unlink(uint32_t block);
  // Orders siblings: by tokens, a prefix first, equals by id.
  bool Precedes(uint32_t block, uint32_t other) const;
  void DropRootIfUnused(uint32_t root);

  PrefixTreeState state_;
  std::vector<uint32_t> free_roots_;
  std::unordered_map<std::string, uint32_t, KeyHash, std::equal_to<>> root_of_key_;
};

}  // namespace octavo::kvcache
