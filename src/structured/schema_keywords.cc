#include "structured/schema_keywords.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <span>

namespace octavo::structured {
namespace {

using boost::json::value;

constexpr std::string_view kAnnotations[] = {
    "title",    "description", "default", "examples", "deprecated",  "readOnly",     "writeOnly",
    "$comment", "$schema",     "$id",     "$defs",    "definitions", "discriminator"};

constexpr std::string_view kTypes[] = {"null",   "boolean", "integer", "number",
                                       "string", "array",   "object"};

struct TypeKeywords {
  std::string_view type;
  std::vector<std::string_view> keywords;
};

// In the order in which a schema without `type` is taken to be about one.
const std::vector<TypeKeywords>& KeywordsByType() {
  static const std::vector<TypeKeywords> keywords = {
      {"object",
       {"properties", "required", "additionalProperties", "patternProperties", "propertyNames",
        "minProperties", "maxProperties"}},
      {"array", {"items", "prefixItems", "minItems", "maxItems"}},
      {"string", {"pattern", "format", "minLength", "maxLength"}},
      {"number", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}}};
  return keywords;
}

bool Contains(std::span<const std::string_view> keywords, std::string_view keyword) {
  return std::ranges::find(keywords, keyword) != keywords.end();
}

bool IsOfType(const value& value, std::string_view type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_bool();
  if (type == "string") return value.is_string();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  if (type == "number") return value.is_number();
  if (!value.is_number()) return false;
  const double number = value.to_number<double>();
  return number == std::nearbyint(number);
}

}  // namespace

SchemaForm FormOf(const boost::json::object& schema) {
  for (const SchemaForm form : {SchemaForm::kRef, SchemaForm::kConst, SchemaForm::kEnum,
                                SchemaForm::kAnyOf, SchemaForm::kOneOf, SchemaForm::kAllOf}) {
    if (schema.contains(FormName(form))) return form;
  }
  return SchemaForm::kTyped;
}

std::string_view FormName(SchemaForm form) {
  switch (form) {
    case SchemaForm::kRef:
      return "$ref";
    case SchemaForm::kConst:
      return "const";
    case SchemaForm::kEnum:
      return "enum";
    case SchemaForm::kAnyOf:
      return "anyOf";
    case SchemaForm::kOneOf:
      return "oneOf";
    case SchemaForm::kAllOf:
      return "allOf";
    case SchemaForm::kTyped:
      return "type";
  }
  return "";
}

bool IsKeywordOf(SchemaForm form, std::string_view keyword) {
  if (keyword == FormName(form)) return true;
  if (form == SchemaForm::kConst || form == SchemaForm::kEnum) return keyword == "type";
  if (form != SchemaForm::kTyped) return false;
  return std::ranges::any_of(KeywordsByType(), [keyword](const TypeKeywords& of_type) {
    return Contains(of_type.keywords, keyword);
  });
}

bool IsAnnotation(std::string_view keyword) { return Contains(kAnnotations, keyword); }

Result<std::vector<std::string>> TypesOf(const boost::json::object& schema) {
  std::vector<std::string> types;
  const value* named = schema.if_contains("type");
  if (named == nullptr) {
    for (const TypeKeywords& of_type : KeywordsByType()) {
      const bool is_about = std::ranges::any_of(
          of_type.keywords, [&schema](std::string_view key) { return schema.contains(key); });
      if (is_about) return std::vector<std::string>{std::string(of_type.type)};
    }
    return types;
  }
  boost::json::array names;
  if (named->is_array()) {
    names = named->get_array();
  } else {
    names.push_back(*named);
  }
  if (names.empty()) return Status::InvalidArgument("type must name a type");
  for (const value& name : names) {
    if (!name.is_string() || !Contains(kTypes, name.get_string())) {
      return Status::InvalidArgument(
          fmt::format("type is {}, but must be null, boolean, integer, number, string, array or "
                      "object",
                      boost::json::serialize(name).substr(0, 100)));
    }
    if (std::ranges::find(types, std::string_view(name.get_string())) != types.end()) {
      return Status::InvalidArgument("type names a type twice");
    }
    types.emplace_back(name.get_string());
  }
  return types;
}

bool MatchesType(const value& value, const boost::json::object& schema) {
  if (!schema.contains("type")) return true;
  const Result<std::vector<std::string>> types = TypesOf(schema);
  return types.ok() && std::ranges::any_of(*types, [&value](const std::string& type) {
           return IsOfType(value, type);
         });
}

bool IsExact(const value& value) {
  if (value.is_uint64()) return false;
  if (value.is_double()) return std::isfinite(value.get_double());
  if (value.is_array()) return std::ranges::all_of(value.get_array(), IsExact);
  if (value.is_object()) {
    return std::ranges::all_of(value.get_object(),
                               [](const auto& member) { return IsExact(member.value()); });
  }
  return true;
}

}  // namespace octavo::structured
