#include "server/structured_fields.h"

#include <fmt/format.h>

#include <boost/json/serialize.hpp>
#include <string>
#include <utility>

namespace octavo::server {
namespace {

namespace json = boost::json;

constexpr size_t kMaxConstraintBytes = 1 << 20;  // the engine's own limits are tighter

// A schema is an object, a boolean, or the text of one.
std::optional<std::string> SchemaText(const json::value& schema) {
  if (schema.is_object() || schema.is_bool()) return json::serialize(schema);
  if (schema.is_string()) return std::string(schema.get_string());
  return std::nullopt;
}

void ReadResponseFormat(JsonFields& fields, SamplingParams* params) {
  const json::object* format = fields.Object("response_format");
  if (format == nullptr) return;
  JsonFields inner(*format, "response_format.");
  const std::string type = inner.String("type", 64).value_or("");
  StructuredOutputs outputs;
  if (type == "text") return;
  if (type == "json_object") {
    outputs.json_object = true;
  } else if (type == "json_schema") {
    const json::object* holder = inner.Object("json_schema");
    const json::value* schema = holder == nullptr ? nullptr : holder->if_contains("schema");
    if (schema != nullptr) outputs.json = SchemaText(*schema);
    if (!outputs.json && inner.ok()) {
      inner.Fail("json_schema", "an object with the schema in 'schema'");
    }
  } else if (inner.ok()) {
    inner.Fail("type", "\"text\", \"json_object\" or \"json_schema\"");
  }
  if (!inner.ok()) return fields.Fail("response_format", inner.error());
  params->structured_outputs = std::move(outputs);
}

void ReadChoice(JsonFields& fields, std::vector<std::string>* choice) {
  const json::array* array = fields.Array("choice");
  if (array == nullptr) return;
  for (const json::value& value : *array) {
    if (!value.is_string()) {
      return fields.Fail("choice",
                         fmt::format("an array of strings, not one with {}", ShortJson(value)));
    }
    choice->emplace_back(value.get_string());
  }
  if (array->empty()) fields.Fail("choice", "an array of at least one string");
}

void ReadStructuredOutputs(JsonFields& fields, SamplingParams* params) {
  const json::object* given = fields.Object("structured_outputs");
  if (given == nullptr) return;
  JsonFields inner(*given, "structured_outputs.");
  StructuredOutputs outputs;
  int num_kinds = 0;
  if (const json::value* schema = inner.Find("json")) {
    outputs.json = SchemaText(*schema);
    if (!outputs.json) inner.Fail("json", "a JSON schema, as an object or as text");
    ++num_kinds;
  }
  if ((outputs.regex = inner.String("regex", kMaxConstraintBytes))) ++num_kinds;
  if ((outputs.grammar = inner.String("grammar", kMaxConstraintBytes))) ++num_kinds;
  ReadChoice(inner, &outputs.choice);
  if (!outputs.choice.empty()) ++num_kinds;
  outputs.json_object = inner.Bool("json_object").value_or(false);
  if (outputs.json_object) ++num_kinds;
  for (const char* unsupported : {"structural_tag", "whitespace_pattern"}) {
    if (inner.Find(unsupported) != nullptr) inner.Fail(unsupported, "absent: it is not supported");
  }
  if (!inner.ok()) return fields.Fail("structured_outputs", inner.error());
  if (num_kinds != 1 || params->structured_outputs) {
    return fields.Fail("structured_outputs",
                       "exactly one of json, regex, choice, grammar and json_object, and without "
                       "response_format");
  }
  params->structured_outputs = std::move(outputs);
}

}  // namespace

void ReadStructuredFields(JsonFields& fields, SamplingParams* params) {
  ReadResponseFormat(fields, params);
  ReadStructuredOutputs(fields, params);
  for (const char* former : {"guided_json", "guided_regex", "guided_choice", "guided_grammar"}) {
    if (fields.Find(former) != nullptr) fields.Fail(former, "absent: use structured_outputs");
  }
}

}  // namespace octavo::server
