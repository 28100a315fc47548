#pragma once

// Purpose:    the audits of the prefix cache: its books, as plain data, against each other and
//             against the pool's.
// Threading:  pure functions of their arguments.
// Invariants: never abort, whatever the books say (see integrity.h).

#include <cstdint>
#include <span>

#include "kvcache/block_lists.h"
#include "kvcache/pin_registry.h"
#include "kvcache/prefix_tree.h"
#include "octavo/kvcache/integrity.h"

namespace octavo::kvcache {

// Every node is reached from its parent, once, in its place; content and states of blocks agree;
// what is above a block in use is in use; roots without use are gone.
IntegrityReport AuditTree(const BlockPoolState& pool, const PrefixTreeState& tree);

// The lists are lists; a block is in one if and only if it is evictable and not pinned. What is
// worth more is on a later list, so a child comes before its parent: on an earlier list, or before
// it on the same.
IntegrityReport AuditEvictionOrder(const BlockPoolState& pool, const PrefixTreeState& tree,
                                   const BlockListsState& order, const PinRegistryState& pins);

// The counts of pins are those of the pinned paths.
IntegrityReport AuditPins(const PrefixTreeState& tree, const PinRegistryState& pins);

// A sequence's table names a path of the tree, from its root, up to a last block that may hold
// content which is not published.
IntegrityReport AuditTable(const PrefixTreeState& tree, uint32_t root,
                           std::span<const uint32_t> block_ids, int64_t num_tokens);

}  // namespace octavo::kvcache
