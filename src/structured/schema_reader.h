#pragma once

// Purpose:    reads a JSON schema into the canonical schema that the library compiles: only
//             keywords that it honours, references to definitions of its own, patterns in ASCII.
// Ownership:  borrows the schema; the canonical one is a value of its own.
// Threading:  one thread at a time.
// Invariants: every text that matches the canonical schema matches the schema; an error names the
//             place as a JSON pointer.

#include <boost/json.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "octavo/status.h"
#include "structured/schema_graph.h"

namespace octavo::structured {

class SchemaReader {
 public:
  explicit SchemaReader(const boost::json::value& root) : root_(root) {}

  // REQUIRES: called once.
  Result<boost::json::value> Read();

 private:
  using NodeId = SchemaGraph::NodeId;
  using Object = boost::json::object;

  struct Target {
    const boost::json::value* schema;
    std::string place;
    NodeId node = -1;
  };
  // A schema that is being read.
  struct Reading {
    const Object& schema;
    const std::string& place;
    SchemaGraph::Node node;
    Object canonical;
    int32_t target = -1;  // of a reference: an index into targets_
  };

  Result<NodeId> ReadSchema(const boost::json::value& schema, const std::string& place);
  Status ReadObjectSchema(Reading& reading);
  Status CheckKeywords(const Reading& reading) const;
  Status ReadRef(Reading& reading);
  Status ReadValues(Reading& reading, std::string_view keyword);
  Status ReadAlternatives(Reading& reading, std::string_view keyword);
  Status ReadTyped(Reading& reading);
  Status ReadOneType(Reading& reading, std::string_view type);
  Status ReadNumberKeywords(Reading& reading, bool integer);
  Status ReadStringKeywords(Reading& reading);
  Status ReadArrayKeywords(Reading& reading);
  Status ReadObjectKeywords(Reading& reading);
  static Status CheckCountedProperties(const Reading& reading);
  Status ReadProperties(Reading& reading);
  Status ReadOtherProperties(Reading& reading);

  NodeId Add(Reading reading);
  const boost::json::value& Canonical(NodeId id) const;
  Result<NodeId> ReadPart(Reading& reading, const boost::json::value& part, std::string_view name);
  Result<std::string> ReadPattern(const Reading& reading, std::string_view keyword,
                                  std::string_view pattern);
  // Notes the counts of a kind of string, once for each kind.
  Status Spend(const Reading& reading, const std::string& kind, int64_t counts);
  // Absent: -1.
  Result<int64_t> ReadCount(const Reading& reading, std::string_view keyword, int64_t limit) const;
  Status CopyCounts(Reading& reading, std::string_view min, std::string_view max, int64_t limit);
  static Status Error(const std::string& place, std::string_view message);

  const boost::json::value& root_;
  int32_t num_schemas_ = 0;
  int64_t total_counts_ = 0;
  std::unordered_set<std::string> kinds_;  // of strings, whose counts are in the total
  SchemaGraph graph_;
  std::vector<boost::json::value> canonical_;           // by node
  std::vector<std::pair<NodeId, int32_t>> references_;  // a node and an index into targets_
  std::vector<Target> targets_;
  std::unordered_map<const boost::json::value*, int32_t> target_ids_;
};

}  // namespace octavo::structured
