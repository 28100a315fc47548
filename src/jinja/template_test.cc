// Expected texts are jinja2's (tests/golden/text/jinja.txt, made by
// tests/tools/make_jinja_golden.py), or written by hand from Jinja2's documentation.

#include "jinja/template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "jinja/jinja_test_util.h"

namespace octavo::jinja {
namespace {

using testing::Error;
using ::testing::HasSubstr;
using testing::Render;
using testing::Text;

std::string FromHex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

// The fields of a record; the first is its name.
std::vector<std::vector<std::string>> ReadGolden() {
  std::ifstream in(OCTAVO_SOURCE_DIR "/tests/golden/text/jinja.txt");
  EXPECT_TRUE(in.is_open());
  std::vector<std::vector<std::string>> records;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with('#')) continue;
    std::vector<std::string> fields;
    for (size_t begin = 0; begin <= line.size();) {
      const size_t end = std::min(line.find('\t', begin), line.size());
      fields.push_back(line.substr(begin, end - begin));
      begin = end + 1;
    }
    records.push_back(std::move(fields));
  }
  return records;
}

// The record's kwargs with its messages.
std::string Variables(const std::vector<std::vector<std::string>>& records) {
  std::string messages, kwargs;
  for (const auto& record : records) {
    if (record[0] == "messages") messages = FromHex(record.at(1));
    if (record[0] == "kwargs") kwargs = FromHex(record.at(1));
  }
  return "{\"messages\": " + messages + ", \"tools\": null, " + kwargs.substr(1);
}

TEST(TemplateTest, RendersWhatJinjaRendersAndRefusesWhatItRefuses) {
  const auto records = ReadGolden();
  const std::string variables = Variables(records);
  size_t num_texts = 0, num_refused = 0;
  for (const auto& record : records) {
    if (record[0] != "text" && record[0] != "refused") continue;
    const std::string source = FromHex(record.at(1));
    const Result<TrackedString> text = Render(source, variables);
    if (record[0] == "text") {
      ASSERT_TRUE(text.ok()) << source << ": " << text.status().message();
      EXPECT_EQ(text->bytes(), FromHex(record.at(2))) << source;
      ++num_texts;
    } else {
      EXPECT_FALSE(text.ok()) << source << " gives " << text->bytes();
      EXPECT_EQ(text.status().code(), StatusCode::kInvalidArgument) << source;
      ++num_refused;
    }
  }
  EXPECT_GE(num_texts, 120u);
  EXPECT_GE(num_refused, 100u);
}

TEST(TemplateTest, ErrorsNameTheTemplatesLine) {
  EXPECT_EQ(Error("a\n{% if true %}\n{{ 1 + none }}{% endif %}"),
            "chat template, line 3: unsupported operand type(s) for +: 'int' and 'NoneType'");
  EXPECT_THAT(Error("\n\n{{ a b }}"), HasSubstr("line 3: expected"));
  EXPECT_THAT(Error("{{ x\n\n| nope }}"), HasSubstr("line 3: No filter named 'nope'"));
  EXPECT_THAT(Error("{# \n\n #}{% if true %}"), HasSubstr("line 3: 'endif' is missing"));
  EXPECT_THAT(Error("{% macro m() %}\n{{ 1 / 0 }}{% endmacro %}\n{{ m() }}"), HasSubstr("line 2:"));
}

TEST(TemplateTest, WhatIsNotSupportedIsAnErrorOfTheTemplate) {
  for (const char* source :
       {"{% include 'x' %}", "{% import 'x' as y %}", "{% extends 'x' %}",
        "{% block b %}{% endblock %}", "{% autoescape true %}{% endautoescape %}",
        "{{ 'a' | urlize }}", "{{ cycler('a') }}", "{{ '\\N{DASH}' }}"}) {
    EXPECT_FALSE(Template::Parse(source).ok()) << source;
  }
}

TEST(TemplateTest, ATemplatesRefusalHasItsMessageAlone) {
  EXPECT_EQ(Error("\n{{ raise_exception('Only \"user\" may begin\\nhere') }}"),
            "Only \"user\" may begin\nhere");
}

TEST(TemplateTest, TheTimeIsTheCallers) {
  EXPECT_EQ(Text("{{ strftime_now('%d %b %Y %H:%M:%S %A %-d %j %%') }}"),
            "09 Jul 2024 01:02:03 Sunday 9 001 %");
  EXPECT_THAT(Error("{{ strftime_now('%Z') }}"), HasSubstr("%Z"));
  EXPECT_THAT(Error("{{ strftime_now('%') }}"), HasSubstr("format"));
}

TEST(TemplateTest, TellsWhetherTheTemplateWalksThroughContents) {
  const auto iterates = [](std::string_view source) {
    return Template::Parse(source)->iterates_content();
  };
  EXPECT_FALSE(iterates("{% for m in messages %}{{ m.content }}{% endfor %}"));
  EXPECT_TRUE(iterates(
      "{% for m in messages %}{% for p in m['content'] %}{{ p.text }}{% endfor %}{% endfor %}"));
  EXPECT_TRUE(
      iterates("{% set rest = messages[1:] %}{% for m in rest %}"
               "{% for p in m.content | list %}{% endfor %}{% endfor %}"));
  EXPECT_FALSE(iterates("{% for p in other.content %}{% endfor %}"));
}

TEST(TemplateTest, OneTemplateRendersManyTimes) {
  const Result<Template> parsed = Template::Parse("{% set ns = namespace(n=0) %}{{ ns.n }}{{ x }}");
  ASSERT_TRUE(parsed.ok());
  for (int i = 0; i < 3; ++i) {
    Execution execution{Limits{}};
    const auto text = parsed->Render(execution, {{"x", Value::Int(i)}}, testing::FixedTime);
    ASSERT_TRUE(text.ok());
    EXPECT_EQ(text->bytes(), "0" + std::to_string(i));
  }
}

}  // namespace
}  // namespace octavo::jinja
