// JSON text: read back by another library, and nothing that a strict parser refuses.

#include "server/json_writer.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <cmath>
#include <limits>
#include <string>

namespace octavo::server {
namespace {

namespace json = boost::json;

TEST(JsonWriterTest, NestedValuesAreSeparatedByCommas) {
  JsonWriter writer;
  writer.BeginObject().Member("a", int64_t{1}).Key("b").BeginArray();
  writer.Int(1).BeginObject().EndObject().Null().EndArray().Member("c", true).EndObject();
  EXPECT_EQ(writer.Take(), R"({"a":1,"b":[1,{},null],"c":true})");
}

TEST(JsonWriterTest, EveryByteComesBackFromAnotherParser) {
  std::string text;
  for (int byte = 0; byte < 0x80; ++byte) text += static_cast<char>(byte);
  text += "\xc3\xa4\xf0\x9f\x98\x80";
  JsonWriter writer;
  writer.String(text);
  EXPECT_EQ(json::parse(writer.text()).as_string(), text);
}

// Readers of streams that cut at every line end of Unicode would cut an event in two.
TEST(JsonWriterTest, LineEndsOfUnicodeAreEscaped) {
  const std::string text = "a\xc2\x85\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa\xc2\x84";
  JsonWriter writer;
  writer.String(text);
  EXPECT_EQ(writer.text(), "\"a\\u0085\\u2028\\u2029\xe2\x80\xaa\xc2\x84\"");
  EXPECT_EQ(json::parse(writer.text()).as_string(), text);
}

TEST(JsonWriterTest, WhatIsNotTextBecomesReplacementCharacters) {
  JsonWriter writer;
  writer.String(
      "a\xff"
      "b\xf0\x9f");
  EXPECT_EQ(json::parse(writer.text()).as_string(),
            "a\xef\xbf\xbd"
            "b\xef\xbf\xbd");
}

TEST(JsonWriterTest, NumbersThatAreNotFiniteBecomeTheFloor) {
  JsonWriter writer;
  writer.BeginArray()
      .Float(-std::numeric_limits<float>::infinity())
      .Float(std::nanf(""))
      .Double(std::numeric_limits<double>::infinity())
      .EndArray();
  const json::value parsed = json::parse(writer.text());
  ASSERT_EQ(parsed.as_array().size(), 3u);
  for (const json::value& value : parsed.as_array()) {
    EXPECT_EQ(value.to_number<double>(), kLogprobFloor);
  }
}

TEST(JsonWriterTest, AFloatIsTheSameFloatAgain) {
  for (const float value : {-0.066503525f, -1.17873f, 1e-30f, 3.4e38f, 0.0f, -5.0f}) {
    JsonWriter writer;
    writer.Float(value);
    EXPECT_EQ(static_cast<float>(json::parse(writer.text()).to_number<double>()), value);
  }
}

}  // namespace
}  // namespace octavo::server
