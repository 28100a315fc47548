// Bodies of requests: whatever JSON holds, reading its fields ends in a request or in an error that
// is JSON itself.

#include <boost/json/parse.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "server/api_call.h"
#include "server/chat_input.h"
#include "server/sampling_fields.h"
#include "server/tool_calls.h"

namespace octavo::server {
namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

// What the server has written must be JSON, however deep.
boost::json::value ParseOwn(std::string_view json) {
  boost::json::parse_options options;
  options.max_depth = SIZE_MAX;
  return boost::json::parse(json, {}, options);
}

void ReadBody(std::string_view body) {
  const ApiResult<boost::json::object> object = ParseObject(body, 64);
  if (!object.ok()) {
    ParseOwn(object.error().Json());
    return;
  }
  JsonFields fields(*object);
  AnswerOptions answer;
  ReadAnswerFields(fields, &answer);
  Request request;
  ReadSamplingFields(fields, &request.params);
  ReadMaxTokens(fields, "max_tokens", 1, &request.params);
  ReadBeamSearch(fields, &request);
  ReadSharingFields(fields, &request);
  ToolOptions tools;
  ReadToolFields(fields, &tools);
  ChatInput input;
  ReadChatInput(fields, &input);
  if (!fields.ok()) {
    ParseOwn(fields.error().Json());
    return;
  }
  Require(request.params.n >= 1 && request.params.n <= 128);
  Require(request.params.max_tokens.value_or(1) >= 1);
  if (!input.tools_json.empty()) {
    DescribeTools(ParseOwn(input.messages_json).as_array(), ParseOwn(input.tools_json).as_array());
  }
  if (const auto constraint = tools.Constraint()) ParseOwn(*constraint->json);
}

// The same bytes as what a model says: no text is lost or invented.
void SplitAnswer(std::string_view answer) {
  ToolOptions tools;
  tools.choice = ToolChoice::kAuto;
  tools.tools = {{"f", {}}};
  ToolCallSplitter whole(tools);
  const ToolCallSplitter::Part expected = whole.Push(answer, /*is_last=*/true);
  ToolCallSplitter splitter(tools);
  ToolCallSplitter::Part joined;
  for (size_t i = 0; i < answer.size(); ++i) {
    ToolCallSplitter::Part part = splitter.Push(answer.substr(i, 1), i + 1 == answer.size());
    joined.text += part.text;
    for (ToolCall& call : part.calls) joined.calls.push_back(std::move(call));
  }
  Require(joined.text == expected.text);
  Require(joined.calls.size() == expected.calls.size());
}

}  // namespace
}  // namespace octavo::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kMaxBytes = 1 << 14;
  if (size > kMaxBytes) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  octavo::server::ReadBody(text);
  octavo::server::SplitAnswer(text);
  return 0;
}
