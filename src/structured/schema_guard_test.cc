#include "structured/schema_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "structured/grammar_limits.h"
#include "structured/schema_formats.h"

namespace octavo::structured {
namespace {

using testing::HasSubstr;

void ExpectRefused(const std::string& schema, const std::string& message) {
  const Result<std::string> result = GuardSchema(schema);
  ASSERT_FALSE(result.ok()) << schema;
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(result.status().message(), HasSubstr(message)) << schema;
}

void ExpectAccepted(const std::string& schema) {
  const Result<std::string> result = GuardSchema(schema);
  EXPECT_TRUE(result.ok()) << schema << ": " << result.status().message();
}

TEST(SchemaGuardTest, LeavesNoKeywordThatWouldBeIgnored) {
  for (const char* schema :
       {R"({"not":{}})",
        R"({"type":"array","contains":{"type":"null"}})",
        R"({"type":"array","uniqueItems":true})",
        R"({"if":{},"then":{}})",
        R"({"type":"object","dependentRequired":{}})",
        R"({"typ":"string"})",
        R"({"$ref":"#/$defs/a","minimum":3,"$defs":{"a":{"type":"integer"}}})",
        R"({"anyOf":[{"type":"string"}],"type":"string"})",
        R"({"allOf":[{"type":"string"},{"minLength":2}]})",
        R"({"type":"number","multipleOf":2})",
        R"({"type":"string","format":"regex"})",
        R"({"type":"string","pattern":"a","maxLength":3})",
        R"({"type":"object","required":["a"]})",
        R"({"type":"object","properties":{"a":{}},"patternProperties":{"b":{}}})",
        R"({"type":"object","patternProperties":{"a":{},"b":{}}})",
        R"({"type":"object","propertyNames":{"pattern":"a"},"additionalProperties":false})",
        R"({"const":1,"type":"string"})",
        R"({"enum":[]})",
        R"({"const":18446744073709551615})",
        R"({"type":"string","pattern":"a\"b"})",
        R"({"type":"text"})",
        R"({"type":[]})",
        R"({"items":false,"not":true})",
        R"(false)",
        R"([])",
        R"({)",
        R"({"$ref":"http://x/y"})",
        R"({"$ref":"#/$defs/none"})",
        R"({"type":"integer","minimum":1.5})",
        R"({"type":"integer","maximum":1e300})",
        R"({"type":"number","minimum":0.1234567})"}) {
    EXPECT_FALSE(GuardSchema(schema).ok()) << schema;
  }
}

TEST(SchemaGuardTest, NamesThePlaceAndTheLimit) {
  ExpectRefused(R"({"type":"object","properties":{"a":{"items":{"maxLength":10001}}}})",
                "at '#/properties/a/items': maxLength is 10001, but must be a whole number in "
                "[0, 10000]");
  ExpectAccepted(R"({"type":"object","properties":{"a":{"items":{"maxLength":10000}}}})");
  ExpectRefused(R"({"type":"array","minItems":-1})", "minItems is -1");
  ExpectRefused(R"({"type":"array","minItems":1.5})", "minItems is 1.5E0");
}

TEST(SchemaGuardTest, AcceptsWhatPeopleWrite) {
  for (const char* schema :
       {"{}", "true", R"({"type":"object"})", R"({"type":"array"})",
        R"({"title":"T","description":"d","$schema":"s","type":"string","default":"x"})",
        R"({"anyOf":[{"type":"string","minLength":1},{"type":"null"}],"default":null})",
        R"({"type":["integer","null"],"minimum":0})", R"({"const":"a","type":"string"})",
        R"({"enum":["a",1,null,{"b":[1.5]}]})", R"({"properties":{"a":{}},"required":["a"]})",
        R"({"type":"array","prefixItems":[{"type":"string"}],"items":false})",
        R"({"type":"object","additionalProperties":{"type":"integer"},"maxProperties":3})",
        R"({"type":"object","patternProperties":{"^x_":{"type":"integer"}}})",
        R"({"$defs":{"a":{"type":"object","properties":{"next":{"$ref":"#/$defs/a"}}}},
            "$ref":"#/$defs/a"})",
        R"({"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#"}}},
            "required":["kids"]})",
        R"({"type":"array","items":{"oneOf":[{"type":"string"},{"type":"integer"}]},
            "uniqueItems":false})"}) {
    ExpectAccepted(schema);
  }
}

TEST(SchemaGuardTest, RefusesReferencesThatNeverEnd) {
  ExpectRefused(R"({"$ref":"#"})", "leads back to itself");
  ExpectRefused(R"({"anyOf":[{"type":"null"},{"$ref":"#"}]})", "leads back to itself");
  ExpectRefused(R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})",
                "no value of finite size");
  ExpectRefused(R"({"type":"array","items":{"$ref":"#"},"minItems":1})", "no value of finite size");
  ExpectAccepted(R"({"type":"array","items":{"$ref":"#"}})");
  ExpectAccepted(
      R"({"type":"object","properties":{"a":{"anyOf":[{"type":"null"},{"$ref":"#"}]}},
          "required":["a"]})");
}

TEST(SchemaGuardTest, HoldsSchemasToTheirNumbers) {
  const auto object_of = [](int count, const std::string& more) {
    std::string schema = R"({"type":"object","properties":{)";
    for (int i = 0; i < count; ++i) {
      schema += (i > 0 ? ",\"p" : "\"p") + std::to_string(i) + R"(":{"type":"integer"})";
    }
    return schema + "}" + more + "}";
  };
  ExpectAccepted(object_of(kMaxProperties, ""));
  ExpectRefused(object_of(kMaxProperties + 1, ""), "257 members, but must have at most 256");
  ExpectAccepted(object_of(32, R"(,"maxProperties":32)"));
  ExpectRefused(object_of(32, R"(,"maxProperties":33)"), "product must be at most 1024");

  const auto any_of = [](int count) {
    std::string schema = R"({"anyOf":[{})";
    for (int i = 1; i < count; ++i) schema += ",{}";
    return schema + "]}";
  };
  ExpectAccepted(any_of(kMaxSchemas - 1));
  ExpectRefused(any_of(kMaxSchemas), "more than 2000 schemas");

  const auto enum_of = [](int count) {
    std::string schema = R"({"enum":[0)";
    for (int i = 1; i < count; ++i) schema += "," + std::to_string(i);
    return schema + "]}";
  };
  ExpectAccepted(enum_of(kMaxChoices));
  ExpectRefused(enum_of(kMaxChoices + 1), "enum has 1001 values, but must have at most 1000");

  const auto lengths_of = [](int count, int64_t first) {
    std::string schema = R"({"anyOf":[{"type":"null"})";
    for (int i = 0; i < count; ++i) {
      schema += R"(,{"type":"string","maxLength":)" + std::to_string(first + i) + "}";
    }
    return schema + "]}";
  };
  ExpectAccepted(lengths_of(7, 1000));  // 7 * 129
  ExpectRefused(lengths_of(8, 1000), "add up to 1032 (each as at most 129)");

  const auto pattern_of = [](size_t length) {
    return R"({"type":"string","pattern":")" + std::string(length, 'a') + "\"}";
  };
  ExpectAccepted(pattern_of(kMaxPatternBytes));
  ExpectRefused(pattern_of(kMaxPatternBytes + 1), "pattern has 4097 bytes");
}

TEST(SchemaGuardTest, WritesReferencesAndPatternsInOneForm) {
  EXPECT_EQ(GuardSchema(R"({"title":"x","$ref":"#/$defs/a~1b","$defs":{"a/b":{"type":"string",
                            "pattern":"^[\"a-c]+\\d$","$comment":"y"},"unused":{"not":1}}})")
                .value(),
            R"x({"$ref":"#/$defs/S0","$defs":{"S0":{"type":"string",)x"
            R"x("pattern":"(?:[\\u{61}-\\u{63}]+[\\u{30}-\\u{39}])"}}})x");
}

TEST(SchemaGuardTest, KnowsEveryFormatThatItNames) {
  for (const char* format : {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6",
                             "time", "uri", "uuid"}) {
    ExpectAccepted(R"({"type":"string","format":")" + std::string(format) + "\"}");
    EXPECT_THAT(FormatNames(), HasSubstr(format));
  }
}

}  // namespace
}  // namespace octavo::structured
