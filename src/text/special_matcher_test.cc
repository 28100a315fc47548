#include "text/special_matcher.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <string>
#include <vector>

namespace octavo::text {
namespace {

SpecialMatcher Matcher(const std::vector<std::string>& spellings) {
  std::vector<SpecialMatcher::Entry> entries;
  for (const std::string& spelling : spellings) {
    entries.push_back({spelling, static_cast<TokenId>(entries.size())});
  }
  SpecialMatcher matcher;
  matcher.Build(entries);
  return matcher;
}

TEST(SpecialMatcherTest, TakesTheLongestOfThoseThatBeginTogether) {
  const SpecialMatcher matcher = Matcher({"<a", "<a>", "<a>>", "<b>"});

  const std::optional<SpecialMatch> match = matcher.Find("x<a>>y", 0);

  ASSERT_TRUE(match.has_value());
  EXPECT_EQ(match->id, 2);
  EXPECT_EQ(match->begin, 1u);
  EXPECT_EQ(match->num_bytes, 4u);
}

TEST(SpecialMatcherTest, TakesTheLeftmostEvenIfALaterOneIsLonger) {
  const SpecialMatcher matcher = Matcher({"ab", "bcd"});

  const std::optional<SpecialMatch> match = matcher.Find("abcd", 0);

  ASSERT_TRUE(match.has_value());
  EXPECT_EQ(match->id, 0);
  EXPECT_EQ(matcher.Find("abcd", 1)->id, 1);
}

TEST(SpecialMatcherTest, FindsNothingInNearMissesOrWithoutEntries) {
  EXPECT_FALSE(Matcher({"<|im_start|>"}).Find("<|im_start|<|im_start|", 0).has_value());
  EXPECT_FALSE(Matcher({}).Find("<|im_start|>", 0).has_value());
  EXPECT_FALSE(SpecialMatcher().Find("text", 0).has_value());
}

TEST(SpecialMatcherTest, EqualsTheObviousSearchOnRandomTexts) {
  const bool held = rc::check("leftmost-longest", [] {
    const auto word =
        rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::element('a', 'b', '\xFF')));
    const auto spellings = *rc::gen::container<std::vector<std::string>>(word);
    const auto text = *rc::gen::container<std::string>(rc::gen::element('a', 'b', '\xFF', 'c'));
    const SpecialMatcher matcher = Matcher(spellings);
    for (size_t from = 0; from <= text.size(); ++from) {
      std::optional<SpecialMatch> want;
      for (size_t begin = from; begin < text.size() && !want.has_value(); ++begin) {
        for (size_t i = 0; i < spellings.size(); ++i) {
          const size_t length = spellings[i].size();
          if (text.compare(begin, length, spellings[i]) != 0) continue;
          if (want.has_value() && want->num_bytes >= length) continue;
          want = SpecialMatch{begin, length, static_cast<TokenId>(i)};
        }
      }
      const std::optional<SpecialMatch> got = matcher.Find(text, from);
      RC_ASSERT(got.has_value() == want.has_value());
      if (!got.has_value()) continue;
      RC_ASSERT(got->begin == want->begin);
      RC_ASSERT(got->num_bytes == want->num_bytes);
      RC_ASSERT(got->id == want->id);
    }
  });
  EXPECT_TRUE(held);
}

}  // namespace
}  // namespace octavo::text
