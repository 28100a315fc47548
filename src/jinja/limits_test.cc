// Hostile templates end soon, with an error and without a crash.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "jinja/jinja_test_util.h"

namespace octavo::jinja {
namespace {

using ::testing::AnyOf;
using testing::Error;
using ::testing::HasSubstr;
using testing::Text;

std::string Times(int count, std::string_view text) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

TEST(LimitsTest, StepsAreBounded) {
  const Limits limits = {.max_steps = 10'000};
  const std::string forever =
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";
  EXPECT_THAT(Error(forever, limits), HasSubstr("more than 10000 steps"));
  EXPECT_THAT(Error("{% macro m(n) %}{{ m(n + 1) }}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}"),
              HasSubstr("nested deeper"));
  EXPECT_THAT(Error("{{ range(99999) | sort | map('string') | join | length }}", limits),
              HasSubstr("steps"));
}

TEST(LimitsTest, TextsAreBounded) {
  const Limits limits = {.max_bytes = 1000};
  EXPECT_THAT(Error("{{ 'abcdefghij' * 101 }}", limits), HasSubstr("longer than 1000 bytes"));
  EXPECT_THAT(Error("{% for i in range(101) %}abcdefghij{% endfor %}", limits),
              HasSubstr("longer than 1000 bytes"));
  EXPECT_THAT(Error("{{ ['abcdefghij'] * 101 | join }}", limits), HasSubstr("line 1"));
  EXPECT_THAT(Error("{{ 'x' | center(1000000000000) }}"),
              AnyOf(HasSubstr("steps"), HasSubstr("bytes")));
  EXPECT_THAT(Error("{{ '%999999999s' % 1 }}"), HasSubstr("width"));
  EXPECT_THAT(Error("{{ '%.99999f' % 1 }}"), HasSubstr("precision"));
  EXPECT_THAT(Error("{{ 'x' * 9223372036854775807 }}"),
              AnyOf(HasSubstr("steps"), HasSubstr("bytes")));
  EXPECT_THAT(Error("{{ [1] * 9223372036854775807 }}"), HasSubstr("steps"));
  EXPECT_THAT(Error("{% set ns = namespace(x='xxxxxxxx') %}{% for i in range(99) %}"
                    "{% set ns.x = ns.x + ns.x %}{% endfor %}"),
              HasSubstr("bytes"));
}

TEST(LimitsTest, TheTemplatesSizeIsBounded) {
  EXPECT_THAT(Error(std::string(kMaxTemplateBytes + 1, 'x')), HasSubstr("the limit is 1048576"));
  EXPECT_EQ(Text(std::string(kMaxTemplateBytes, 'x')).size(), kMaxTemplateBytes);
}

TEST(LimitsTest, NestingInTheTemplateIsBounded) {
  for (const auto& [open, close] : {std::pair{"(", ")"},
                                    {"[", "]"},
                                    {"{1:", "}"},
                                    {"-", ""},
                                    {"not ", ""},
                                    {"x(", ")"},
                                    {"x[", "]"},
                                    {"1 if 1 else ", ""},
                                    {"1 + (", ")"},
                                    {"x|default(", ")"},
                                    {"x is eq ", ""}}) {
    const std::string deep = "{{ " + Times(50'000, open) + "1" + Times(50'000, close) + " }}";
    EXPECT_THAT(Error(deep), HasSubstr("line 1")) << open;
  }
  for (const char* chain : {" + 1", " ** 1", ".a", "[0]", "()", "|trim", " and 1", " or 1"}) {
    EXPECT_THAT(Error("{{ 1" + Times(50'000, chain) + " }}"), HasSubstr("too deep")) << chain;
  }
  EXPECT_THAT(Error(Times(20'000, "{% if 1 %}")), HasSubstr("nested too deep"));
  EXPECT_THAT(Error(Times(20'000, "{% for i in x %}")), HasSubstr("nested too deep"));
  EXPECT_EQ(Text("{{ " + Times(60, "(") + "1" + Times(60, ")") + " }}"), "1");
  EXPECT_EQ(Text("{{ 'a'" + Times(150, " + 'a'") + " }}"), std::string(151, 'a'));
  EXPECT_EQ(Text("{{ 'a'" + Times(5'000, " ~ 'a'") + " }}"), std::string(5'001, 'a'));
  EXPECT_EQ(Text("{% if 0 %}" + Times(5'000, "{% elif 0 %}") + "{% else %}x{% endif %}"), "x");
}

TEST(LimitsTest, NestingOfValuesIsBounded) {
  const std::string wrap =
      "{% set ns = namespace(x=1) %}{% for i in range(N) %}W{% endfor %}{{ ns.x }}";
  const auto with = [&wrap](const char* count, std::string_view step) {
    std::string source = wrap;
    source.replace(source.find('W'), 1, step);
    source.replace(source.find('N'), 1, count);
    return source;
  };
  EXPECT_THAT(Error(with("1000", "{% set ns.x = [ns.x] %}")), HasSubstr("too deep"));
  EXPECT_THAT(Error(with("1000", "{% set ns.x = {1: ns.x} %}")), HasSubstr("too deep"));
  EXPECT_THAT(Error(with("1000", "{% set ns.x = [ns.x].count %}")), HasSubstr("too deep"));
  EXPECT_EQ(Text(with("100", "{% set ns.x = [ns.x] %}")), Times(100, "[") + "1" + Times(100, "]"));
  // Shared parts double the text with each round.
  EXPECT_THAT(Error(with("60", "{% set ns.x = [ns.x, ns.x] %}")),
              AnyOf(HasSubstr("steps"), HasSubstr("bytes")));
  EXPECT_THAT(Error(with("60", "{% set ns.x = (ns.x, ns.x) %}{% set d = {ns.x: 1} %}")),
              AnyOf(HasSubstr("steps"), HasSubstr("bytes")));
}

TEST(LimitsTest, CyclesThroughNamespacesAndMacrosEnd) {
  EXPECT_EQ(Text("{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}"
                 "{% macro m() %}{{ a }}{% endmacro %}{% set a.m = m %}{% set a.l = [a] %}ok"),
            "ok");
  EXPECT_EQ(Text("{% set ns = namespace(m=none) %}{% for i in range(2000) %}{% set prev = ns.m %}"
                 "{% macro m() %}{{ prev }}{% endmacro %}{% set ns.m = m %}{% endfor %}ok"),
            "ok");
  EXPECT_EQ(Text("{% set ns = namespace(n=none) %}{% for i in range(2000) %}"
                 "{% set ns.n = namespace(n=ns.n) %}{% endfor %}ok"),
            "ok");
  EXPECT_EQ(Text("{% set ns = namespace() %}{% for i in [1] recursive %}{% set ns.l = loop %}"
                 "{% endfor %}ok"),
            "ok");
}

TEST(LimitsTest, IntegersDoNotOverflow) {
  for (const char* source :
       {"{{ 9223372036854775807 + 1 }}", "{{ -9223372036854775807 - 2 }}",
        "{{ 9223372036854775807 * 2 }}", "{{ 2 ** 63 }}", "{{ 2 ** 9223372036854775807 }}",
        "{{ (-9223372036854775807 - 1) // -1 }}", "{{ -(-9223372036854775807 - 1) }}",
        "{{ 9223372036854775808 }}", "{{ (-9223372036854775807 - 1) | abs }}"}) {
    EXPECT_THAT(Error(source), AnyOf(HasSubstr("64 bits"), HasSubstr("out of range"))) << source;
  }
  EXPECT_EQ(Text("{{ 'abc'[-9223372036854775807:9223372036854775807] }}"), "abc");
  EXPECT_EQ(Text("{{ 'abc'[::9223372036854775807] }}{{ [1, 2][::-9223372036854775807] }}"), "a[2]");
  EXPECT_EQ(Text("{{ range(9223372036854775806, 9223372036854775807, 5) | list }}"),
            "[9223372036854775806]");
}

}  // namespace
}  // namespace octavo::jinja
