#include "jinja/json_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "jinja/python_text.h"

namespace octavo::jinja {
namespace {

using ::testing::HasSubstr;

// The value as Python shows it, or the error.
std::string Read(std::string_view json) {
  Execution execution{Limits{}};
  const Result<Value> value = ParseJson(execution, json, "input");
  if (!value.ok()) return value.status().message();
  StringBuilder builder(execution);
  AppendRepr(execution, *value, &builder);
  return std::string(builder.Take().bytes());
}

TEST(JsonInputTest, ReadsEveryKindOfValue) {
  EXPECT_EQ(Read(R"( {"a": [1, -2.5, 1e3, true, false, null, "x"], "b": {}, "c": []} )"),
            "{'a': [1, -2.5, 1000.0, True, False, None, 'x'], 'b': {}, 'c': []}");
  EXPECT_EQ(Read(R"("\"\\\/\b\f\n\r\t\u00e9\ud83d\ude80")"), R"('"\\/\x08\x0c\n\r\té🚀')");
  EXPECT_EQ(Read("[0.1, 0.30000000000000004, 123456789012345678, 5e-324, 1.7976931348623157e308]"),
            "[0.1, 0.30000000000000004, 123456789012345678, 5e-324, 1.7976931348623157e+308]");
  EXPECT_EQ(Read(R"({"a": 1, "b": 2, "a": 3})"), "{'a': 3, 'b': 2}");
}

TEST(JsonInputTest, KeepsTheOrderOfManyKeys) {
  std::string json = "{", expected = "{";
  for (int i = 0; i < 40; ++i) {
    json += (i > 0 ? ", \"k" : "\"k") + std::to_string(i * 7 % 40) + "\": " + std::to_string(i);
    expected += (i > 0 ? ", 'k" : "'k") + std::to_string(i * 7 % 40) + "': " + std::to_string(i);
  }
  EXPECT_EQ(Read(json + ", \"k0\": 99}"), expected.replace(expected.find(": 0"), 3, ": 99") + "}");
}

TEST(JsonInputTest, RefusesWhatIsNotJson) {
  for (const char* json : {"",
                           " ",
                           "[",
                           "{",
                           "[1,]",
                           "{\"a\":1,}",
                           "{\"a\"}",
                           "{a: 1}",
                           "01",
                           "+1",
                           ".5",
                           "5.",
                           "1e",
                           "-",
                           "nul",
                           "truex",
                           "'a'",
                           "\"a",
                           "\"\\x\"",
                           "\"\\u12\"",
                           "\"\\u12g4\"",
                           "\"\\ud800\"",
                           "\"\\ud800\\u0041\"",
                           "\"\\udc00\"",
                           "\"\n\"",
                           "[1] 2",
                           "NaN",
                           "Infinity",
                           "1e999",
                           "99999999999999999999",
                           "\"\xFF\"",
                           "\"\xED\xA0\x80\"",
                           "// c\n1",
                           "\"\\u-123\""}) {
    EXPECT_THAT(Read(json), HasSubstr("input: ")) << json;
  }
  EXPECT_THAT(Read("[1, x]"), HasSubstr("at byte 4"));
}

TEST(JsonInputTest, BoundsTheDepth) {
  EXPECT_THAT(Read(std::string(100'000, '[')), HasSubstr("nested deeper than 100"));
  EXPECT_EQ(Read(std::string(100, '[') + std::string(100, ']')),
            std::string(100, '[') + std::string(100, ']'));
}

TEST(JsonInputTest, EveryStringIsUntrusted) {
  Execution execution{Limits{}};
  const Result<Value> value = ParseJson(execution, R"(["a"])", "input");
  ASSERT_TRUE(value.ok());
  EXPECT_TRUE(value->sequence().items[0].string().trusted().empty());
}

}  // namespace
}  // namespace octavo::jinja
