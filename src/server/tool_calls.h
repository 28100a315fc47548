#pragma once

// Purpose:    function calling: the tools of a request, how the model is told of them, and the
//             calls in what it says.
// Ownership:  plain values.
// Threading:  any thread.
// Invariants: a call is given out only if it names one of the tools and its arguments are a JSON
//             object; anything else stays text.

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "octavo/structured_outputs.h"
#include "server/json_fields.h"

namespace octavo::server {

enum class ToolChoice {
  kNone,      // the answer is text
  kAuto,      // the model decides; calls stand between <tool_call> and </tool_call>
  kRequired,  // the answer is a JSON array of calls
  kNamed,     // the answer is the arguments of one function
};

struct ToolSpec {
  std::string name;
  boost::json::object parameters;  // a JSON schema; empty = any object
};

struct ToolOptions {
  ToolChoice choice = ToolChoice::kNone;
  std::vector<ToolSpec> tools;
  std::string named;  // kNamed
  bool parallel = true;

  // What the output must look like; nothing for kNone and kAuto.
  std::optional<StructuredOutputs> Constraint() const;
  bool Knows(std::string_view name) const;
};

// tools, tool_choice and parallel_tool_calls.
void ReadToolFields(JsonFields& fields, ToolOptions* options);

struct ToolCall {
  std::string name;
  std::string arguments;  // JSON text
};

// The calls that a text between the marks, or a whole answer of kRequired, spells; nothing if it
// is not a call or an array of calls of known tools.
std::optional<std::vector<ToolCall>> ParseToolCalls(std::string_view text,
                                                    const ToolOptions& options);

// Splits an answer of kAuto, as it comes, into text and calls.
class ToolCallSplitter {
 public:
  explicit ToolCallSplitter(const ToolOptions& options) : options_(options) {}

  struct Part {
    std::string text;
    std::vector<ToolCall> calls;
  };
  // What is certain after `piece`; `is_last`: nothing more comes.
  Part Push(std::string_view piece, bool is_last);

 private:
  const ToolOptions& options_;
  std::string held_;  // may be the beginning of a mark, or begins with one
};

// The messages with the tools described in them, for a template that does not know tools: in the
// system message, and the calls of former answers as text.
boost::json::array DescribeTools(const boost::json::array& messages,
                                 const boost::json::array& tools);

}  // namespace octavo::server
