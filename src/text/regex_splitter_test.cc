#include "text/regex_splitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace octavo::text {
namespace {

using ::testing::ElementsAre;

std::vector<std::string_view> Split(std::string_view pattern,
                                    const std::vector<std::string_view>& texts) {
  const Result<RegexSplitter> splitter = RegexSplitter::Compile(pattern);
  EXPECT_TRUE(splitter.ok()) << splitter.status().message();
  std::vector<std::string_view> pieces;
  const Status status = splitter->Split(texts, &pieces);
  EXPECT_TRUE(status.ok()) << status.message();
  return pieces;
}

TEST(RegexSplitterTest, KeepsMatchesAndTheStretchesBetweenThem) {
  EXPECT_THAT(Split("[0-9]", {"a12b", "3", "", "cd"}), ElementsAre("a", "1", "2", "b", "3", "cd"));
}

TEST(RegexSplitterTest, EmptyMatchesCutNothing) {
  EXPECT_THAT(Split("x*", {"axxb"}), ElementsAre("a", "xx", "b"));
}

TEST(RegexSplitterTest, AMatchTooDeepForTheJitStackIsStillFound) {
  const std::string text(1 << 20, 'a');

  const std::vector<std::string_view> pieces = Split("(?:(a|b)(a|c))+", {text});

  EXPECT_THAT(pieces, ElementsAre(text));
}

TEST(RegexSplitterTest, ALimitThatIsHitIsAnError) {
  const Result<RegexSplitter> splitter = RegexSplitter::Compile("(*LIMIT_MATCH=1000)(a+)+b");
  ASSERT_TRUE(splitter.ok());
  const std::vector<std::string_view> texts = {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac b"};
  std::vector<std::string_view> pieces;

  const Status status = splitter->Split(texts, &pieces);

  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("match limit"));
}

TEST(RegexSplitterTest, APatternThatDoesNotCompileIsAnError) {
  EXPECT_EQ(RegexSplitter::Compile("[a").status().code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace octavo::text
