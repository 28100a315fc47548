#include "structured/schema_graph.h"

#include <algorithm>
#include <utility>

namespace octavo::structured {
namespace {

size_t Index(SchemaGraph::NodeId id) { return static_cast<size_t>(id); }

}  // namespace

SchemaGraph::NodeId SchemaGraph::Add(Node node) {
  nodes_.push_back(std::move(node));
  return static_cast<NodeId>(nodes_.size() - 1);
}

void SchemaGraph::AddReference(NodeId from, NodeId target) {
  nodes_[Index(from)].needs.push_back(target);
  nodes_[Index(from)].same_place.push_back(target);
}

Status SchemaGraph::Check() const {
  if (Status status = CheckCycles(); !status.ok()) return status;
  return CheckEnds();
}

// A value that must match itself without anything between, as in {"$ref": "#"}.
Status SchemaGraph::CheckCycles() const {
  enum class Mark : uint8_t { kNew, kOpen, kDone };
  std::vector<Mark> marks(nodes_.size(), Mark::kNew);
  struct Visit {
    NodeId node;
    size_t next;
  };
  std::vector<Visit> open;
  for (size_t start = 0; start < nodes_.size(); ++start) {
    if (marks[start] == Mark::kNew) open.push_back({static_cast<NodeId>(start), 0});
    while (!open.empty()) {
      Visit& visit = open.back();
      const std::vector<NodeId>& next = nodes_[Index(visit.node)].same_place;
      marks[Index(visit.node)] = Mark::kOpen;
      if (visit.next == next.size()) {
        marks[Index(visit.node)] = Mark::kDone;
        open.pop_back();
        continue;
      }
      const NodeId child = next[visit.next++];
      if (marks[Index(child)] == Mark::kOpen) {
        return Status::InvalidArgument(
            "the JSON schema has a $ref that leads back to itself with nothing in between");
      }
      if (marks[Index(child)] == Mark::kNew) open.push_back({child, 0});
    }
  }
  return Status::Ok();
}

// Some value of finite size matches every schema.
Status SchemaGraph::CheckEnds() const {
  std::vector<bool> ends(nodes_.size(), false);
  const auto of = [&](NodeId id) { return static_cast<bool>(ends[Index(id)]); };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = nodes_[i];
      if (ends[i]) continue;
      ends[i] =
          node.any ? std::ranges::any_of(node.needs, of) : std::ranges::all_of(node.needs, of);
      changed = changed || ends[i];
    }
  }
  if (std::ranges::all_of(ends, [](bool end) { return end; })) return Status::Ok();
  return Status::InvalidArgument(
      "the JSON schema has a $ref cycle through required properties or items: no value of finite "
      "size matches it");
}

}  // namespace octavo::structured
