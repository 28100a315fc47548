#include "kvcache/prefix_tree.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

namespace octavo::kvcache {
namespace {

constexpr int32_t kBlockSize = 8;
constexpr uint32_t kNumBlocks = 48;

struct Operation {
  int kind = 0;
  uint32_t block = 0;
  std::vector<int32_t> tokens;
};

void showValue(const Operation& operation, std::ostream& out) {
  out << "{" << operation.kind << ", " << operation.block << ", " << rc::toString(operation.tokens)
      << "}";
}

size_t CommonPrefix(const std::vector<int32_t>& first, const std::vector<int32_t>& second) {
  size_t i = 0;
  while (i < std::min(first.size(), second.size()) && first[i] == second[i]) ++i;
  return i;
}

// One parent's children against a map of lists.
class SiblingsDriver {
 public:
  SiblingsDriver() : parent_(ParentOfRoot(tree_.RetainRoot("root"))) {}

  void Apply(const Operation& operation) {
    const uint32_t block = operation.block;
    const std::vector<int32_t>& tokens = operation.tokens;
    const auto held = children_.find(block);
    if (operation.kind <= 1) {
      if (held == children_.end() && !IsTaken(tokens)) {
        tree_.Insert(block, parent_, tokens);
        children_[block] = tokens;
      }
    } else if (held == children_.end()) {
      return;
    } else if (operation.kind == 2) {
      tree_.Remove(block);
      children_.erase(held);
    } else if (operation.kind == 3) {
      std::vector<int32_t> longer = held->second;
      longer.insert(longer.end(), tokens.begin(), tokens.end());
      if (longer.size() > kBlockSize || IsTaken(longer)) return;
      tree_.Extend(block, tokens);
      held->second = longer;
    } else if (tokens.size() < held->second.size()) {
      tree_.Cut(block, static_cast<int32_t>(tokens.size()));
      held->second.resize(tokens.size());
    }
  }

  void Check(const std::vector<int32_t>& query) const {
    size_t longest = 0;
    bool has_exact = false;  // a child that ends where the common part ends
    for (const auto& [block, tokens] : children_) {
      RC_ASSERT(std::ranges::equal(tree_.tokens(block), tokens));
      longest = std::max(longest, CommonPrefix(tokens, query));
    }
    const std::vector<int32_t> common(query.begin(),
                                      query.begin() + static_cast<std::ptrdiff_t>(longest));
    for (const auto& child : children_) has_exact = has_exact || child.second == common;

    const PrefixTree::Closest closest = tree_.FindClosest(parent_, query);
    RC_ASSERT(static_cast<size_t>(closest.num_tokens) == longest);
    RC_ASSERT((closest.block == kNoBlock) == (longest == 0));
    if (longest == 0) return;
    RC_ASSERT(CommonPrefix(children_.at(closest.block), query) == longest);
    if (longest == query.size() && has_exact) {
      RC_ASSERT(children_.at(closest.block).size() == longest);
    }
    if (query.size() == kBlockSize) {
      RC_ASSERT((tree_.FindSealed(parent_, query) != kNoBlock) == (longest == kBlockSize));
    }
  }

 private:
  // A sealed child holds exactly these: an equal one may not be added.
  bool IsTaken(const std::vector<int32_t>& tokens) const {
    if (tokens.size() < kBlockSize) return false;
    return std::ranges::any_of(children_,
                               [&](const auto& child) { return child.second == tokens; });
  }

  PrefixTree tree_{kNumBlocks, kBlockSize};
  ParentId parent_;
  std::map<uint32_t, std::vector<int32_t>> children_;
};

RC_GTEST_PROP(PrefixTreeTest, TheClosestChildIsTheOneThatAScanFinds, ()) {
  const auto tokens = rc::gen::mapcat(rc::gen::inRange<size_t>(1, kBlockSize + 1), [](size_t n) {
    return rc::gen::container<std::vector<int32_t>>(n, rc::gen::inRange<int32_t>(0, 3));
  });
  const auto operation = rc::gen::build<Operation>(
      rc::gen::set(&Operation::kind, rc::gen::inRange(0, 5)),
      rc::gen::set(&Operation::block, rc::gen::inRange<uint32_t>(0, kNumBlocks)),
      rc::gen::set(&Operation::tokens, tokens));
  const auto program = *rc::gen::resize(300, rc::gen::container<std::vector<Operation>>(operation));
  SiblingsDriver driver;
  for (const Operation& step : program) {
    driver.Apply(step);
    driver.Check(step.tokens);
  }
}

TEST(PrefixTreeTest, ARootLivesWhileItIsRetainedOrHasContent) {
  PrefixTree tree(4, kBlockSize);
  const uint32_t root = tree.RetainRoot("root");
  EXPECT_EQ(tree.RetainRoot("root"), root);
  tree.Insert(0, ParentOfRoot(root), std::vector<int32_t>{1});

  tree.ReleaseRoot(root);
  tree.ReleaseRoot(root);
  EXPECT_EQ(tree.FindRoot("root"), root);
  tree.Remove(0);

  EXPECT_EQ(tree.FindRoot("root"), kNoRoot);
  EXPECT_EQ(tree.num_roots(), 0u);
}

TEST(PrefixTreeTest, TheHashOfABlockDependsOnRootParentAndTokens) {
  const std::vector<int32_t> tokens = {1, 2, 3, 4, 5, 6, 7, 8};
  PrefixTree tree(4, kBlockSize);
  const uint32_t root = tree.RetainRoot("root");
  const uint32_t other = tree.RetainRoot("other");
  tree.Insert(0, ParentOfRoot(root), tokens);
  tree.Insert(1, ParentOfBlock(0), tokens);
  tree.Insert(2, ParentOfRoot(other), tokens);

  EXPECT_NE(tree.hash(ParentOfBlock(0)), tree.hash(ParentOfBlock(1)));
  EXPECT_NE(tree.hash(ParentOfBlock(0)), tree.hash(ParentOfBlock(2)));
}

TEST(PrefixTreeDeathTest, OnlyAFullBlockHasChildren) {
  PrefixTree tree(4, kBlockSize);
  tree.Insert(0, ParentOfRoot(tree.RetainRoot("root")), std::vector<int32_t>{1, 2});
  EXPECT_DEATH(tree.Insert(1, ParentOfBlock(0), std::vector<int32_t>{3}), "follows a sealed block");
}

}  // namespace
}  // namespace octavo::kvcache
