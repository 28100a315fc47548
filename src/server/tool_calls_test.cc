// Function calls in what a model says, however the text is cut into pieces.

#include "server/tool_calls.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <string>

namespace octavo::server {
namespace {

ToolOptions Weather() {
  ToolOptions options;
  options.choice = ToolChoice::kAuto;
  options.tools = {{"get_weather", {}}, {"add", {}}};
  return options;
}

ToolOptions Read(const char* body, bool* ok) {
  const boost::json::object object = boost::json::parse(body).as_object();
  JsonFields fields(object);
  ToolOptions options;
  ReadToolFields(fields, &options);
  *ok = fields.ok();
  return options;
}

struct Heard {
  std::string text;
  std::string calls;  // "name(arguments) ..."
};

// Pushes `answer` in pieces of `size` bytes.
Heard Hear(const std::string& answer, size_t size, const ToolOptions& options) {
  ToolCallSplitter splitter(options);
  Heard heard;
  for (size_t i = 0; i < answer.size(); i += size) {
    const bool is_last = i + size >= answer.size();
    const ToolCallSplitter::Part part = splitter.Push(answer.substr(i, size), is_last);
    heard.text += part.text;
    for (const ToolCall& call : part.calls) heard.calls += call.name + "(" + call.arguments + ") ";
  }
  return heard;
}

TEST(ToolCallSplitterTest, CallsAndTextAreToldApartWhereverTheTextIsCut) {
  const std::string answer =
      R"(Let me see <b>.<tool_call>[{"name": "get_weather", "arguments": {"city": "Rome"}},)"
      R"( {"name": "add", "arguments": {"a": 1}}]</tool_call> Done < <tool)";
  const ToolOptions options = Weather();
  for (size_t size = 1; size <= answer.size(); ++size) {
    const Heard heard = Hear(answer, size, options);
    EXPECT_EQ(heard.text, "Let me see <b>. Done < <tool") << size;
    EXPECT_EQ(heard.calls, R"(get_weather({"city":"Rome"}) add({"a":1}) )") << size;
  }
}

TEST(ToolCallSplitterTest, WhatIsNoCallOfAKnownToolStaysText) {
  const ToolOptions options = Weather();
  for (const char* answer :
       {R"(<tool_call>{"name": "rm", "arguments": {}}</tool_call>)",
        R"(<tool_call>{"name": "add", "arguments": 5}</tool_call>)",
        R"(<tool_call>{"name": "add"}</tool_call>)", "<tool_call>nonsense</tool_call>",
        "<tool_call>[]</tool_call>", R"(<tool_call>{"name": "add", "arguments": {})"}) {
    for (const size_t size : {size_t{1}, size_t{7}, size_t{1000}}) {
      const Heard heard = Hear(answer, size, options);
      EXPECT_EQ(heard.text, answer);
      EXPECT_EQ(heard.calls, "") << answer;
    }
  }
}

TEST(ToolCallSplitterTest, WithoutParallelCallsTheFirstOneCounts) {
  ToolOptions options = Weather();
  options.parallel = false;
  const Heard heard = Hear(R"(<tool_call>[{"name":"add","arguments":{"a":1}},)"
                           R"({"name":"add","arguments":{"a":2}}]</tool_call>)",
                           9, options);
  EXPECT_EQ(heard.calls, R"(add({"a":1}) )");
}

TEST(ToolCallSplitterTest, ArgumentsKeepTheSpellingOfTheModel) {
  const Heard heard = Hear(
      R"(<tool_call>{"name": "add", "note": {"arguments": 1}, "arguments":)"
      R"( {"a": 0.1, "b": 250.0, "c": 123456789012345678901, "d": "x \" : , ]", "e": [ { } ]}})"
      R"(</tool_call>)",
      1000, Weather());
  EXPECT_EQ(heard.calls,
            R"(add({"a":0.1,"b":250.0,"c":123456789012345678901,"d":"x \" : , ]","e":[{}]}) )");
}

TEST(ToolOptionsTest, ReferencesWithinParametersLeadToTheirPlaceInTheConstraint) {
  ToolOptions options = Weather();
  options.choice = ToolChoice::kRequired;
  options.tools[1].parameters =
      boost::json::parse(
          R"({"$defs":{"P":{"type":"integer"}},"type":"object",)"
          R"("properties":{"a":{"$ref":"#/$defs/P"},"b":{"type":"array","items":{"$ref":"#"}},)"
          R"("const":{"$ref":"#/$defs/P"},"c":{"const":{"$ref":"#/x"}}}})")
          .as_object();
  const boost::json::value schema = boost::json::parse(*options.Constraint()->json);
  const boost::json::value& parameters = schema.at_pointer("/items/anyOf/1/properties/arguments");
  EXPECT_EQ(parameters.at_pointer("/properties/c/const/$ref"), "#/x");  // data
  for (const char* place :
       {"/properties/a/$ref", "/properties/b/items/$ref", "/properties/const/$ref"}) {
    const std::string reference(parameters.at_pointer(place).as_string());
    EXPECT_EQ(schema.at_pointer(reference.substr(1)).at("type"),
              reference.ends_with("/P") ? "integer" : "object");
  }
}

TEST(ReadToolFieldsTest, TheChoiceFollowsFromTheTools) {
  constexpr char kTool[] = R"({"type":"function","function":{"name":"add"}})";
  const auto read = [&](const std::string& rest, bool* ok) {
    return Read((std::string(R"({"tools":[)") + kTool + "]" + rest + "}").c_str(), ok);
  };
  bool ok = false;
  EXPECT_EQ(Read("{}", &ok).choice, ToolChoice::kNone);
  EXPECT_TRUE(ok);
  EXPECT_EQ(read("", &ok).choice, ToolChoice::kAuto);
  EXPECT_EQ(read(R"(,"tool_choice":"none")", &ok).choice, ToolChoice::kNone);
  EXPECT_EQ(read(R"(,"tool_choice":"required")", &ok).choice, ToolChoice::kRequired);
  const ToolOptions named =
      read(R"(,"tool_choice":{"type":"function","function":{"name":"add"}})", &ok);
  EXPECT_EQ(named.choice, ToolChoice::kNamed);
  EXPECT_EQ(named.named, "add");
  EXPECT_TRUE(ok);
  for (const char* bad : {R"(,"tool_choice":"sometimes")", R"(,"tool_choice":5)",
                          R"(,"tool_choice":{"type":"function","function":{"name":"sub"}})"}) {
    read(bad, &ok);
    EXPECT_FALSE(ok) << bad;
  }
}

TEST(ReadToolFieldsTest, ToolsThatAreNoneAreRefused) {
  for (const char* body :
       {R"({"tools":[1]})", R"({"tools":[{"type":"function"}]})",
        R"({"tools":[{"type":"function","function":{"name":""}}]})",
        R"({"tools":[{"type":"function","function":{"name":"a b"}}]})",
        R"({"tools":[{"type":"code","function":{"name":"a"}}]})",
        R"({"tools":[{"type":"function","function":{"name":"a","parameters":7}}]})",
        R"({"tools":[{"type":"function","function":{"name":"a"}},)"
        R"({"type":"function","function":{"name":"a"}}]})",
        R"({"tool_choice":"required"})", R"({"functions":[]})"}) {
    bool ok = true;
    Read(body, &ok);
    EXPECT_FALSE(ok) << body;
  }
}

TEST(DescribeToolsTest, TheSystemMessageTellsOfTheToolsAndFormerCallsBecomeText) {
  const boost::json::array messages =
      boost::json::parse(
          R"([{"role":"user","content":"1+1?"},{"role":"assistant","content":null,"tool_calls":)"
          R"([{"id":"x","type":"function","function":{"name":"add","arguments":"{\"a\": 1}"}}]},)"
          R"({"role":"tool","content":"2"}])")
          .as_array();
  const boost::json::array tools =
      boost::json::parse(R"([{"type":"function","function":{"name":"add"}}])").as_array();
  const boost::json::array described = DescribeTools(messages, tools);
  ASSERT_EQ(described.size(), 4u);
  EXPECT_EQ(described[0].at("role").as_string(), "system");
  EXPECT_NE(std::string(described[0].at("content").as_string()).find(R"("name":"add")"),
            std::string::npos);
  EXPECT_EQ(described[2].at("content").as_string(),
            R"(<tool_call>[{"name":"add","arguments":{"a":1}}]</tool_call>)");
  EXPECT_EQ(described[3].at("content").as_string(), "2");
}

TEST(DescribeToolsTest, ASystemMessageInPartsTakesOneMoreAndNumbersStayAsTheyAre) {
  const boost::json::array messages =
      boost::json::parse(R"([{"role":"system","content":[{"type":"text","text":"Be brief."}]}])")
          .as_array();
  const boost::json::array tools =
      boost::json::parse(R"([{"type":"function","function":{"name":"add","parameters":)"
                         R"({"properties":{"a":{"minimum":0.1,"maximum":1e30,"default":2.0}}}}}])")
          .as_array();
  const boost::json::array described = DescribeTools(messages, tools);
  ASSERT_EQ(described.size(), 1u);
  const boost::json::array& parts = described[0].at("content").as_array();
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_NE(
      parts[1].at("text").as_string().find(R"({"minimum":0.1,"maximum":1e+30,"default":2.0})"),
      boost::json::string::npos);
}

}  // namespace
}  // namespace octavo::server
