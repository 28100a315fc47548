// Parts of a JSON text as they are spelled.

#include "server/json_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <string>

namespace octavo::server {
namespace {

using ::testing::ElementsAre;

TEST(JsonTextTest, ElementsAreCutWhereTheyEnd) {
  EXPECT_THAT(JsonElements(R"( [1 , "a]\",b" ,{"x":[2,3]},[ ],null,-1e5 ] )"),
              ElementsAre("1", R"("a]\",b")", R"({"x":[2,3]})", "[ ]", "null", "-1e5"));
  EXPECT_THAT(JsonElements("[]"), ElementsAre());
}

TEST(JsonTextTest, TheLastMemberOfANameIsFoundHoweverItIsSpelled) {
  const std::string text = R"({"b":{"a":0}, "a" : 1.50 ,"\u0061":[2 ,3]})";
  EXPECT_EQ(JsonMember(text, "a"), "[2 ,3]");
  EXPECT_EQ(JsonMember(text, "b"), R"({"a":0})");
  EXPECT_EQ(JsonMember(text, "c"), std::nullopt);
  EXPECT_EQ(JsonMember("{ }", "c"), std::nullopt);
}

TEST(JsonTextTest, CompactTextLosesOnlyTheSpaceBetweenItsParts) {
  EXPECT_EQ(CompactJson("{ \"a b\" :\n[1,\t\" \\\" \"]}\r\n"), R"({"a b":[1," \" "]})");
}

TEST(JsonTextTest, NumbersAreSpelledInTheFewestDigitsAndReadBackTheSame) {
  const char* text =
      R"({"a":[0.1,-2.5,3.0,1e+30,1e-07,-7,18446744073709551615],"b":{"c":[true,false,null,"x"]}})";
  EXPECT_EQ(SpellJson(boost::json::parse(text)), text);
  EXPECT_EQ(boost::json::parse(SpellJson(boost::json::parse("[1e400]"))),
            boost::json::parse("[1e400]"));
}

}  // namespace
}  // namespace octavo::server
