// Which graphs of schemas can match anything, and end.

#include "structured/schema_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace octavo::structured {
namespace {

using ::testing::HasSubstr;

SchemaGraph::Node All(std::vector<SchemaGraph::NodeId> needs) {
  return {.any = false, .needs = std::move(needs), .same_place = {}};
}

SchemaGraph::Node Any(std::vector<SchemaGraph::NodeId> needs) {
  return {.any = true, .needs = std::move(needs), .same_place = {}};
}

TEST(SchemaGraphTest, ATreeEndsAndSoDoesACycleWithAWayOut) {
  SchemaGraph graph;
  const auto leaf = graph.Add(All({}));
  const auto reference = graph.Add(All({}));
  const auto list = graph.Add(Any({leaf, graph.Add(All({reference}))}));  // nothing, or one more
  graph.AddReference(reference, list);
  EXPECT_TRUE(graph.Check().ok());
}

TEST(SchemaGraphTest, WhatNeedsItselfHasNoFiniteValue) {
  SchemaGraph graph;
  const auto reference = graph.Add(All({}));
  graph.AddReference(reference, graph.Add(All({graph.Add(All({})), reference})));
  EXPECT_THAT(graph.Check().message(), HasSubstr("no value of finite size"));
}

TEST(SchemaGraphTest, WhatIsItselfIsRefusedHoweverLongTheWayIs) {
  SchemaGraph graph;
  constexpr int kLength = 2000;
  for (int i = 0; i < kLength; ++i) graph.Add(All({}));
  for (int i = 0; i + 1 < kLength; ++i) graph.AddReference(i, i + 1);
  EXPECT_TRUE(graph.Check().ok());
  graph.AddReference(kLength - 1, 0);
  EXPECT_THAT(graph.Check().message(), HasSubstr("leads back to itself"));
}

}  // namespace
}  // namespace octavo::structured
