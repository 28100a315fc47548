#include "server/tool_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "server/json_text.h"
#include "server/json_writer.h"

namespace octavo::server {
namespace {

namespace json = boost::json;

constexpr std::string_view kOpen = "<tool_call>";
constexpr std::string_view kClose = "</tool_call>";
constexpr size_t kMaxTools = 128;
constexpr size_t kMaxNameBytes = 64;
constexpr size_t kMaxDepth = 128;  // of the arguments of a call

bool IsFunctionName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && std::ranges::all_of(name, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '-' || c == '.';
  });
}

std::optional<ToolSpec> ReadTool(const json::value& value) {
  const json::object* tool = value.if_object();
  const json::value* function = tool == nullptr ? nullptr : tool->if_contains("function");
  if (function == nullptr || !function->is_object()) return std::nullopt;
  const json::value* type = tool->if_contains("type");
  if (type == nullptr || !type->is_string() || type->get_string() != "function") {
    return std::nullopt;
  }
  const json::value* name = function->get_object().if_contains("name");
  if (name == nullptr || !name->is_string() || !IsFunctionName(name->get_string())) {
    return std::nullopt;
  }
  const json::value* description = function->get_object().if_contains("description");
  if (description != nullptr && !description->is_string() && !description->is_null()) {
    return std::nullopt;
  }
  ToolSpec spec{std::string(name->get_string()), {}};
  const json::value* parameters = function->get_object().if_contains("parameters");
  if (parameters != nullptr && !parameters->is_null()) {
    if (!parameters->is_object()) return std::nullopt;
    spec.parameters = parameters->get_object();
  }
  return spec;
}

void ReadToolChoice(JsonFields& fields, ToolOptions* options) {
  const json::value* choice = fields.Find("tool_choice");
  options->choice = options->tools.empty() ? ToolChoice::kNone : ToolChoice::kAuto;
  if (choice == nullptr) return;
  if (choice->is_string()) {
    const json::string& name = choice->get_string();
    if (name == "none") {
      options->choice = ToolChoice::kNone;
      return;
    }
    if (name == "auto") return;
    if (name == "required" && !options->tools.empty()) {
      options->choice = ToolChoice::kRequired;
      return;
    }
  } else if (const std::optional<ToolSpec> named = ReadTool(*choice);
             named && options->Knows(named->name)) {
    options->choice = ToolChoice::kNamed;
    options->named = named->name;
    return;
  }
  fields.Fail("tool_choice",
              "\"none\", \"auto\", \"required\" (with tools), or {\"type\": \"function\", "
              "\"function\": {\"name\": one of the tools}}");
}

json::object ParametersOf(const ToolSpec& tool) {
  return tool.parameters.empty() ? json::object{{"type", "object"}} : tool.parameters;
}

// `spelled`: the text of `value`; the arguments are given on as the model spelled them.
std::optional<ToolCall> ReadCall(const json::value& value, std::string_view spelled,
                                 const ToolOptions& options) {
  const json::object* call = value.if_object();
  if (call == nullptr) return std::nullopt;
  const json::value* name = call->if_contains("name");
  const char* key = call->contains("arguments") ? "arguments" : "parameters";
  const json::value* arguments = call->if_contains(key);
  if (name == nullptr || !name->is_string() || !options.Knows(name->get_string()) ||
      arguments == nullptr || !arguments->is_object()) {
    return std::nullopt;
  }
  return ToolCall{std::string(name->get_string()), CompactJson(*JsonMember(spelled, key))};
}

// How many last bytes of `text` may be the beginning of `mark`.
size_t HeldBytes(std::string_view text, std::string_view mark) {
  for (size_t size = std::min(text.size(), mark.size() - 1); size > 0; --size) {
    if (text.ends_with(mark.substr(0, size))) return size;
  }
  return 0;
}

std::string Instructions(const json::array& tools) {
  return fmt::format(
      "You may call functions to answer. These are the functions, with JSON schemas of their "
      "parameters:\n<tools>{}</tools>\nTo call some, answer with a JSON array of calls between "
      "{} and {}, like this:\n{}[{{\"name\": \"the_function\", \"arguments\": {{\"parameter\": "
      "\"value\"}}}}]{}\nThe results then come in a message of role tool. If no function helps, "
      "answer in words.",
      SpellJson(tools), kOpen, kClose, kOpen, kClose);
}

// A paragraph at the end of a message's content; false if that is of a kind that takes none.
bool AddText(const std::string& text, json::value* content) {
  if (content->is_string()) {
    *content = fmt::format("{}\n\n{}", std::string(content->get_string()), text);
  } else if (content->is_array()) {
    content->get_array().push_back({{"type", "text"}, {"text", "\n\n" + text}});
  } else {
    return false;
  }
  return true;
}

// The calls of a former answer, the way in which the model would have spelled them.
std::string SpellCalls(const json::array& calls) {
  JsonWriter spelled;
  spelled.BeginArray();
  for (const json::value& value : calls) {
    const json::object* call = value.if_object();
    const json::value* function = call == nullptr ? nullptr : call->if_contains("function");
    if (function == nullptr || !function->is_object()) continue;
    spelled.BeginObject();
    if (const json::value* name = function->get_object().if_contains("name")) {
      spelled.Key("name").Raw(SpellJson(*name));
    }
    if (const json::value* arguments = function->get_object().if_contains("arguments")) {
      boost::system::error_code error;
      const bool is_json_text =
          arguments->is_string() && (json::parse(arguments->get_string(), error), !error);
      spelled.Key("arguments")
          .Raw(is_json_text ? CompactJson(arguments->get_string()) : SpellJson(*arguments));
    }
    spelled.EndObject();
  }
  spelled.EndArray();
  return fmt::format("{}{}{}", kOpen, spelled.text(), kClose);
}

// References within a schema lead from its root: within another schema, at `place`, from there.
// `by_name`: the members are schemas by name, of properties or definitions.
json::value Moved(const json::value& schema, const std::string& place, bool by_name = false) {
  if (const json::array* array = schema.if_array()) {
    json::array moved;
    for (const json::value& element : *array) moved.push_back(Moved(element, place));
    return moved;
  }
  if (!schema.is_object()) return schema;
  json::object moved;
  for (const auto& [key, value] : schema.get_object()) {
    const bool is_data = key == "const" || key == "enum" || key == "default" || key == "examples";
    const bool is_reference =
        key == "$ref" && value.is_string() && value.get_string().starts_with("#");
    if (!by_name && is_data) {
      moved[key] = value;
    } else if (!by_name && is_reference) {
      moved[key] = fmt::format("#{}{}", place, std::string_view(value.get_string()).substr(1));
    } else {
      const bool names = key == "properties" || key == "patternProperties" || key == "$defs" ||
                         key == "definitions";
      moved[key] = Moved(value, place, !by_name && names);
    }
  }
  return moved;
}

}  // namespace

std::optional<StructuredOutputs> ToolOptions::Constraint() const {
  StructuredOutputs outputs;
  if (choice == ToolChoice::kNamed) {
    const auto tool = std::ranges::find(tools, named, &ToolSpec::name);
    outputs.json = json::serialize(ParametersOf(*tool));
    return outputs;
  }
  if (choice != ToolChoice::kRequired) return std::nullopt;
  json::array kinds;
  for (const ToolSpec& tool : tools) {
    const std::string place = fmt::format("/items/anyOf/{}/properties/arguments", kinds.size());
    kinds.emplace_back(json::object{
        {"type", "object"},
        {"properties",
         {{"name", {{"const", tool.name}}}, {"arguments", Moved(ParametersOf(tool), place)}}},
        {"required", {"name", "arguments"}},
        {"additionalProperties", false}});
  }
  json::object schema{{"type", "array"}, {"minItems", 1}, {"items", {{"anyOf", kinds}}}};
  if (!parallel) schema["maxItems"] = 1;
  outputs.json = json::serialize(schema);
  return outputs;
}

bool ToolOptions::Knows(std::string_view name) const {
  return std::ranges::find(tools, name, &ToolSpec::name) != tools.end();
}

void ReadToolFields(JsonFields& fields, ToolOptions* options) {
  if (const json::array* tools = fields.Array("tools")) {
    if (tools->size() > kMaxTools) {
      return fields.Fail("tools", fmt::format("an array of at most {} tools", kMaxTools));
    }
    for (size_t i = 0; i < tools->size(); ++i) {
      std::optional<ToolSpec> tool = ReadTool((*tools)[i]);
      if (!tool || options->Knows(tool->name)) {
        return fields.Fail(
            "tools",
            fmt::format(
                "an array of {{\"type\": \"function\", \"function\": {{\"name\", "
                "\"description\", \"parameters\"}}}}, each name once, of letters, digits, '_', "
                "'-' and '.'; tool {} is not so",
                i));
      }
      options->tools.push_back(*std::move(tool));
    }
  }
  ReadToolChoice(fields, options);
  options->parallel = fields.Bool("parallel_tool_calls").value_or(true);
  for (const char* former : {"functions", "function_call"}) {
    if (fields.Find(former) != nullptr) fields.Fail(former, "absent: use tools and tool_choice");
  }
}

std::optional<std::vector<ToolCall>> ParseToolCalls(std::string_view text,
                                                    const ToolOptions& options) {
  boost::system::error_code error;
  json::parse_options depth;
  depth.max_depth = kMaxDepth;
  const json::value value = json::parse(text, error, {}, depth);
  if (error) return std::nullopt;
  std::vector<ToolCall> calls;
  const auto add = [&](const json::value& element, std::string_view spelled) {
    std::optional<ToolCall> call = ReadCall(element, spelled, options);
    if (call) calls.push_back(*std::move(call));
    return call.has_value();
  };
  if (const json::array* array = value.if_array()) {
    const std::vector<std::string_view> elements = JsonElements(text);
    for (size_t i = 0; i < elements.size(); ++i) {
      if (!add((*array)[i], elements[i])) return std::nullopt;
    }
  } else if (!add(value, text)) {
    return std::nullopt;
  }
  if (calls.empty()) return std::nullopt;
  if (!options.parallel) calls.resize(1);
  return calls;
}

ToolCallSplitter::Part ToolCallSplitter::Push(std::string_view piece, bool is_last) {
  Part part;
  held_ += piece;
  while (true) {
    const size_t open = held_.find(kOpen);
    if (open == std::string::npos) break;
    part.text += held_.substr(0, open);
    held_.erase(0, open);
    const size_t close = held_.find(kClose);
    if (close == std::string::npos) {
      if (is_last) break;
      return part;
    }
    const std::string_view inside =
        std::string_view(held_).substr(kOpen.size(), close - kOpen.size());
    if (std::optional<std::vector<ToolCall>> calls = ParseToolCalls(inside, options_)) {
      std::ranges::move(*calls, std::back_inserter(part.calls));
    } else {
      part.text += held_.substr(0, close + kClose.size());
    }
    held_.erase(0, close + kClose.size());
  }
  const size_t num_held = is_last ? 0 : HeldBytes(held_, kOpen);
  part.text += held_.substr(0, held_.size() - num_held);
  held_.erase(0, held_.size() - num_held);
  return part;
}

json::array DescribeTools(const json::array& messages, const json::array& tools) {
  json::array described;
  bool has_system = false;
  for (const json::value& value : messages) {
    json::object message = value.get_object();
    if (described.empty() && message["role"] == "system") {
      has_system = AddText(Instructions(tools), &message["content"]);
    }
    const json::value* calls = message.if_contains("tool_calls");
    if (calls != nullptr && calls->is_array() && !calls->get_array().empty()) {
      const json::value* content = message.if_contains("content");
      const std::string text = content != nullptr && content->is_string()
                                   ? std::string(content->get_string())
                                   : std::string();
      message["content"] = text + SpellCalls(calls->get_array());
    }
    described.emplace_back(std::move(message));
  }
  if (!has_system) {
    described.insert(described.begin(),
                     json::object{{"role", "system"}, {"content", Instructions(tools)}});
  }
  return described;
}

}  // namespace octavo::server
