#include "text/pair_merger.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <utility>
#include <vector>

namespace octavo::text {
namespace {

using Rules = std::map<std::pair<TokenId, TokenId>, Merge>;

std::vector<TokenId> Merged(const std::vector<TokenId>& ids, const Rules& rules) {
  PairMerger merger;
  for (size_t i = 0; i < ids.size(); ++i) merger.Add({static_cast<uint32_t>(i), 1, ids[i]});
  merger.Run([&](const Symbol& left, const Symbol& right) -> std::optional<Merge> {
    const auto rule = rules.find({left.id, right.id});
    if (rule == rules.end()) return std::nullopt;
    return rule->second;
  });
  std::vector<TokenId> out;
  uint32_t next = 0;
  merger.ForEach([&](const Symbol& symbol) {
    EXPECT_EQ(symbol.begin, next);
    next += symbol.num_bytes;
    out.push_back(symbol.id);
  });
  EXPECT_EQ(next, ids.size());
  return out;
}

// The definition: scan for the best pair, join it, start again.
std::vector<TokenId> MergedByScanning(std::vector<TokenId> ids, const Rules& rules) {
  while (true) {
    size_t best = ids.size();
    Merge best_merge;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto rule = rules.find({ids[i], ids[i + 1]});
      if (rule == rules.end()) continue;
      if (best < ids.size() && best_merge.priority <= rule->second.priority) continue;
      best = i;
      best_merge = rule->second;
    }
    if (best == ids.size()) return ids;
    ids[best] = best_merge.id;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(PairMergerTest, JoinsTheBestPairFirstAndOfEqualOnesTheLeftmost) {
  const Rules rules = {{{1, 2}, {5, 10}}, {{2, 3}, {4, 11}}, {{1, 1}, {7, 12}}};

  EXPECT_EQ(Merged({1, 2, 3}, rules), (std::vector<TokenId>{1, 11}));
  EXPECT_EQ(Merged({1, 1, 1}, rules), (std::vector<TokenId>{12, 1}));
  EXPECT_EQ(Merged({1, 2, 1, 2}, rules), (std::vector<TokenId>{10, 10}));
  EXPECT_EQ(Merged({}, rules), (std::vector<TokenId>{}));
}

TEST(PairMergerTest, EqualsRepeatedScanningOnRandomRules) {
  const bool held = rc::check("heap = scan", [] {
    const auto id = [] { return *rc::gen::inRange<TokenId>(0, 6); };
    Rules rules;
    const int num_rules = *rc::gen::inRange(0, 12);
    for (int i = 0; i < num_rules; ++i) {
      // Few priorities, so that many pairs are equal.
      const auto priority = *rc::gen::inRange<uint32_t>(0, 4);
      const std::pair<TokenId, TokenId> pair = {id(), id()};
      rules[pair] = {priority, id()};
    }
    const auto ids = *rc::gen::container<std::vector<TokenId>>(rc::gen::inRange<TokenId>(0, 6));
    RC_ASSERT(Merged(ids, rules) == MergedByScanning(ids, rules));
  });
  EXPECT_TRUE(held);
}

}  // namespace
}  // namespace octavo::text
