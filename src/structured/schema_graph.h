#pragma once

// Purpose:    which schemas of a JSON schema need which others: whether each can match a value at
//             all, and ends.
// Threading:  one thread at a time.
// Invariants: a node is named by the order of its coming, from 0.

#include <cstdint>
#include <vector>

#include "octavo/status.h"

namespace octavo::structured {

class SchemaGraph {
 public:
  using NodeId = int32_t;

  // One schema. It can end if all, or any, of `needs` can.
  struct Node {
    bool any = false;
    std::vector<NodeId> needs;
    std::vector<NodeId> same_place;  // schemas of the very same value
  };

  NodeId Add(Node node);
  // `from` is nothing but `target`, which may come later.
  void AddReference(NodeId from, NodeId target);

  // Refused are a schema that leads back to itself with nothing in between, and one that no value
  // of finite size matches.
  Status Check() const;

 private:
  Status CheckCycles() const;
  Status CheckEnds() const;

  std::vector<Node> nodes_;
};

}  // namespace octavo::structured
