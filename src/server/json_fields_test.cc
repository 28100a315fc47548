// What a request's JSON may hold, and what is said about the rest.

#include "server/json_fields.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <limits>
#include <string>

namespace octavo::server {
namespace {

boost::json::object Object(const char* text) { return boost::json::parse(text).as_object(); }

TEST(ParseObjectTest, OnlyAnObjectOfBoundedDepthIsABody) {
  EXPECT_TRUE(ParseObject(R"({"a":[[1]]})", 3).ok());
  EXPECT_EQ(ParseObject(R"({"a":[[[1]]]})", 3).error().message,
            "the body is nested deeper than 3 levels");
  EXPECT_EQ(ParseObject("[1]", 8).error().message,
            "the body is an array of 1, but must be a JSON object");
  for (const char* text : {"", "{", "{\"a\":NaN}", "{\"a\":1}x", "{'a':1}", "{\"a\":\"\xff\"}"}) {
    EXPECT_EQ(ParseObject(text, 8).error().code, "malformed_json") << text;
  }
}

TEST(ParseObjectTest, ABodyOfVeryManyMembersIsRefusedBeforeItIsParsed) {
  std::string body = R"({"text":"a : b \" : \\")";
  EXPECT_TRUE(ParseObject(body + "}", 4).ok());
  for (int i = 0; i < 65'535; ++i) body += ",\"" + std::to_string(i) + "\":1";
  EXPECT_TRUE(ParseObject(body + "}", 4).ok());
  EXPECT_EQ(ParseObject(body + ",\"x\":1}", 4).error().message,
            "the body has 65537 fields in its objects, but 65536 are the most");
}

TEST(ParseObjectTest, ABodyOfVeryManyValuesIsRefusedBeforeItIsParsed) {
  std::string body = R"({"text":",,,[[[","a":[0)";  // the object, a comma and the array are 3
  for (int i = 0; i < (1 << 20) - 3; ++i) body += ",0";
  EXPECT_TRUE(ParseObject(body + "]}", 4).ok());
  constexpr char kTooMany[] =
      "the body has 1048577 values in its arrays and objects, but 1048576 are the most";
  EXPECT_EQ(ParseObject(body + ",0]}", 4).error().message, kTooMany);
  EXPECT_EQ(ParseObject(body + "],\"b\":0}", 4).error().message, kTooMany);
  body = R"({"a":[[)";  // 3
  for (int i = 0; i < (1 << 19) - 1; ++i) body += "],[";
  EXPECT_EQ(ParseObject(body + "]]}", 4).error().message, kTooMany);
}

TEST(JsonFieldsTest, NullIsTheSameAsAbsent) {
  const boost::json::object object = Object(R"({"n":null})");
  JsonFields fields(object);
  EXPECT_FALSE(fields.Int("n", 1, 5));
  EXPECT_FALSE(fields.Bool("n"));
  EXPECT_FALSE(fields.String("other", 5));
  EXPECT_TRUE(fields.ok());
}

TEST(JsonFieldsTest, WholeNumbersMayBeSpelledAsFractionsButNothingElseIsOne) {
  const boost::json::object object =
      Object(R"({"a":5,"b":5.0,"c":1.5,"d":"5","e":true,"f":1e30,"g":18446744073709551615})");
  for (const char* name : {"a", "b"}) EXPECT_EQ(JsonFields(object).Int(name, 1, 9), 5) << name;
  for (const char* name : {"c", "d", "e", "f", "g"}) {
    JsonFields fields(object);
    EXPECT_FALSE(fields.Int(name, 1, 9)) << name;
    EXPECT_FALSE(fields.ok()) << name;
    EXPECT_EQ(fields.error().param, name);
  }
}

TEST(JsonFieldsTest, WhatIsAboveALimitThatClampsIsTheLimit) {
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  const boost::json::object object =
      Object(R"({"a":2147483648,"b":9223372036854775808,"c":1e30,"d":-1e30,"e":0})");
  for (const char* name : {"a", "b", "c"}) {
    EXPECT_EQ(JsonFields(object).ClampedInt(name, 1, kMax), kMax) << name;
  }
  for (const char* name : {"d", "e"}) {
    JsonFields fields(object);
    EXPECT_FALSE(fields.ClampedInt(name, 1, kMax)) << name;
    EXPECT_FALSE(fields.ok()) << name;
  }
}

TEST(JsonFieldsTest, TheFirstFieldAtFaultIsReportedWithItsValueAndItsLimit) {
  const boost::json::object object = Object(R"({"n":7,"flag":"yes","deep":{"x":1}})");
  JsonFields fields(object);
  fields.Int("n", 1, 5);
  fields.Bool("flag");
  EXPECT_EQ(fields.error().message, "n is 7, but must be a whole number in [1, 5]");
  EXPECT_EQ(fields.error().param, "n");

  JsonFields inner(object, "stream_options.");
  inner.Bool("flag");
  EXPECT_EQ(inner.error().param, "stream_options.flag");
  EXPECT_EQ(inner.error().message, R"(stream_options.flag is "yes", but must be true or false)");
}

TEST(JsonFieldsTest, ALongValueIsCutInTheMessageBetweenCharacters) {
  const std::string text(79, 'x');
  EXPECT_EQ(ShortJson(boost::json::value(text + "\xc3\xa4\xc3\xa4")), "\"" + text + "\"...");
}

}  // namespace
}  // namespace octavo::server
