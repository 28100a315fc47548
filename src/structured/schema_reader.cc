#include "structured/schema_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "structured/grammar_limits.h"
#include "structured/regex_parser.h"
#include "structured/schema_formats.h"
#include "structured/schema_keywords.h"

namespace octavo::structured {
namespace {

using boost::json::array;
using boost::json::value;

size_t Index(int32_t index) { return static_cast<size_t>(index); }

}  // namespace

Status SchemaReader::Error(const std::string& place, std::string_view message) {
  return Status::InvalidArgument(fmt::format("the JSON schema, at '#{}': {}", place, message));
}

Result<value> SchemaReader::Read() {
  const Result<NodeId> root = ReadSchema(root_, "");
  if (!root.ok()) return root.status();
  for (size_t i = 0; i < targets_.size(); ++i) {
    const std::string place = targets_[i].place;
    const Result<NodeId> node = ReadSchema(*targets_[i].schema, place);
    if (!node.ok()) return node.status();
    targets_[i].node = *node;
  }
  for (const auto& [node, target] : references_) {
    graph_.AddReference(node, targets_[Index(target)].node);
  }
  if (Status status = graph_.Check(); !status.ok()) return status;
  value canonical = std::move(canonical_[Index(*root)]);
  if (!targets_.empty()) {
    Object definitions;
    for (size_t i = 0; i < targets_.size(); ++i) {
      definitions[fmt::format("S{}", i)] = std::move(canonical_[Index(targets_[i].node)]);
    }
    canonical.as_object()["$defs"] = std::move(definitions);
  }
  return canonical;
}

Result<SchemaReader::NodeId> SchemaReader::ReadSchema(const value& schema,
                                                      const std::string& place) {
  if (++num_schemas_ > kMaxSchemas) {
    return Error(place, fmt::format("it holds more than {} schemas, the most", kMaxSchemas));
  }
  static const Object kAnything;
  if (schema.is_bool() && !schema.get_bool()) return Error(place, "nothing matches false");
  if (!schema.is_bool() && !schema.is_object()) {
    return Error(place, "a schema must be an object or true");
  }
  Reading reading{schema.is_object() ? schema.get_object() : kAnything, place, {}, {}};
  if (Status status = ReadObjectSchema(reading); !status.ok()) return status;
  return Add(std::move(reading));
}

SchemaReader::NodeId SchemaReader::Add(Reading reading) {
  const NodeId id = graph_.Add(std::move(reading.node));
  canonical_.emplace_back(std::move(reading.canonical));
  if (reading.target >= 0) references_.emplace_back(id, reading.target);
  return id;
}

const value& SchemaReader::Canonical(NodeId id) const { return canonical_[Index(id)]; }

Status SchemaReader::ReadObjectSchema(Reading& reading) {
  if (Status status = CheckKeywords(reading); !status.ok()) return status;
  switch (FormOf(reading.schema)) {
    case SchemaForm::kRef:
      return ReadRef(reading);
    case SchemaForm::kConst:
      return ReadValues(reading, "const");
    case SchemaForm::kEnum:
      return ReadValues(reading, "enum");
    case SchemaForm::kAnyOf:
      return ReadAlternatives(reading, "anyOf");
    case SchemaForm::kOneOf:
      return ReadAlternatives(reading, "oneOf");
    case SchemaForm::kAllOf:
      return ReadAlternatives(reading, "allOf");
    case SchemaForm::kTyped:
      return ReadTyped(reading);
  }
  return Status::Ok();
}

Status SchemaReader::CheckKeywords(const Reading& reading) const {
  const SchemaForm form = FormOf(reading.schema);
  for (const auto& [key, what] : reading.schema) {
    if (IsKeywordOf(form, key) || IsAnnotation(key)) continue;
    // What these say holds anyway.
    const bool holds =
        key == "uniqueItems" || key == "unevaluatedItems" || key == "unevaluatedProperties";
    if (holds && what.is_bool() && !what.get_bool()) continue;
    if (IsKeywordOf(SchemaForm::kTyped, key)) {
      return Error(reading.place, fmt::format("keyword '{}' beside '{}' is not supported",
                                              std::string_view(key), FormName(form)));
    }
    return Error(reading.place, fmt::format("keyword '{}' is not supported",
                                            std::string_view(key).substr(0, 100)));
  }
  return Status::Ok();
}

Result<SchemaReader::NodeId> SchemaReader::ReadPart(Reading& reading, const value& part,
                                                    std::string_view name) {
  return ReadSchema(part, fmt::format("{}/{}", reading.place, name.substr(0, 100)));
}

Status SchemaReader::ReadRef(Reading& reading) {
  const value& uri = reading.schema.at("$ref");
  if (!uri.is_string()) return Error(reading.place, "$ref must be a string");
  const std::string_view text = uri.get_string();
  boost::json::error_code error;
  const value* target = nullptr;
  if (text == "#") {
    target = &root_;
  } else if (text.starts_with("#/") && text.find('%') == text.npos) {
    target = root_.find_pointer(text.substr(1), error);
  }
  if (target == nullptr) {
    return Error(reading.place,
                 fmt::format("$ref '{}' must be '#' or '#/...' and name a place in this schema",
                             text.substr(0, 100)));
  }
  const auto [found, is_new] = target_ids_.emplace(target, static_cast<int32_t>(targets_.size()));
  if (is_new) targets_.push_back({target, std::string(text.substr(1)), -1});
  reading.target = found->second;
  reading.canonical["$ref"] = fmt::format("#/$defs/S{}", found->second);
  return Status::Ok();
}

Status SchemaReader::ReadValues(Reading& reading, std::string_view keyword) {
  const value& what = reading.schema.at(keyword);
  array values;
  if (keyword == "const") {
    values.push_back(what);
  } else if (what.is_array() && !what.get_array().empty()) {
    values = what.get_array();
  } else {
    return Error(reading.place, "enum must be an array that is not empty");
  }
  if (values.size() > Index(kMaxChoices)) {
    return Error(reading.place, fmt::format("enum has {} values, but must have at most {}",
                                            values.size(), kMaxChoices));
  }
  for (const value& one : values) {
    if (!IsExact(one)) {
      return Error(reading.place,
                   fmt::format("{} holds a number beyond 64-bit integers and doubles", keyword));
    }
    if (!MatchesType(one, reading.schema)) {
      return Error(reading.place, fmt::format("{} holds a value that is not of its type", keyword));
    }
  }
  reading.canonical["enum"] = std::move(values);
  return Status::Ok();
}

Status SchemaReader::ReadAlternatives(Reading& reading, std::string_view keyword) {
  const value& what = reading.schema.at(keyword);
  if (!what.is_array() || what.get_array().empty()) {
    return Error(reading.place, fmt::format("{} must be an array that is not empty", keyword));
  }
  if (keyword == "allOf" && what.get_array().size() > 1) {
    return Error(reading.place, "allOf of more than one schema is not supported");
  }
  reading.node.any = true;
  array schemas;
  for (size_t i = 0; i < what.get_array().size(); ++i) {
    const Result<NodeId> part =
        ReadPart(reading, what.get_array()[i], fmt::format("{}/{}", keyword, i));
    if (!part.ok()) return part.status();
    reading.node.needs.push_back(*part);
    reading.node.same_place.push_back(*part);
    schemas.push_back(Canonical(*part));
  }
  reading.canonical[keyword] = std::move(schemas);
  return Status::Ok();
}

Status SchemaReader::ReadTyped(Reading& reading) {
  const Result<std::vector<std::string>> types = TypesOf(reading.schema);
  if (!types.ok()) return Error(reading.place, types.status().message());
  if (types->size() == 1) return ReadOneType(reading, types->front());
  array schemas;
  reading.node.any = true;
  for (const std::string& type : *types) {
    Reading one{reading.schema, reading.place, {}, {}};
    if (Status status = ReadOneType(one, type); !status.ok()) return status;
    schemas.push_back(one.canonical);
    reading.node.needs.push_back(Add(std::move(one)));
  }
  if (!schemas.empty()) reading.canonical["anyOf"] = std::move(schemas);
  reading.node.any = !reading.node.needs.empty();
  return Status::Ok();
}

Status SchemaReader::ReadOneType(Reading& reading, std::string_view type) {
  reading.canonical["type"] = type;
  if (type == "integer" || type == "number") return ReadNumberKeywords(reading, type == "integer");
  if (type == "string") return ReadStringKeywords(reading);
  if (type == "array") return ReadArrayKeywords(reading);
  if (type == "object") return ReadObjectKeywords(reading);
  return Status::Ok();
}

Status SchemaReader::ReadNumberKeywords(Reading& reading, bool integer) {
  for (const std::string_view keyword :
       {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}) {
    const value* bound = reading.schema.if_contains(keyword);
    if (bound == nullptr) continue;
    if (!bound->is_number())
      return Error(reading.place, fmt::format("{} must be a number", keyword));
    const double number = bound->to_number<double>();
    if (keyword == "multipleOf" && !integer) {
      return Error(reading.place, "multipleOf of a number is not supported, only of an integer");
    }
    // The library writes bounds out in decimal.
    const double scaled = integer ? number : number * 1e6;
    if (!(std::fabs(number) <= kMaxNumberBound) || scaled != std::nearbyint(scaled)) {
      return Error(
          reading.place,
          fmt::format("{} is {}, but must be within {:.0f} of 0 and have {}", keyword, number,
                      kMaxNumberBound, integer ? "no decimals" : "at most 6 decimals"));
    }
    if (number == std::nearbyint(number)) {
      reading.canonical[keyword] = static_cast<int64_t>(number);
    } else {
      reading.canonical[keyword] = number;
    }
  }
  return Status::Ok();
}

Status SchemaReader::ReadStringKeywords(Reading& reading) {
  const value* pattern = reading.schema.if_contains("pattern");
  const value* format = reading.schema.if_contains("format");
  const Result<int64_t> min = ReadCount(reading, "minLength", kMaxRepeat);
  const Result<int64_t> max = ReadCount(reading, "maxLength", kMaxRepeat);
  if (!min.ok()) return min.status();
  if (!max.ok()) return max.status();
  const bool has_length = *min >= 0 || *max >= 0;
  if ((pattern != nullptr ? 1 : 0) + (format != nullptr ? 1 : 0) + (has_length ? 1 : 0) > 1) {
    return Error(reading.place,
                 "pattern, format and minLength or maxLength are not supported together");
  }
  if (pattern != nullptr) {
    if (!pattern->is_string()) return Error(reading.place, "pattern must be a string");
    Result<std::string> read = ReadPattern(reading, "pattern", pattern->get_string());
    if (!read.ok()) return read.status();
    reading.canonical["pattern"] = *read;
  } else if (format != nullptr) {
    const std::optional<std::string> known =
        format->is_string() ? FormatPattern(format->get_string()) : std::nullopt;
    if (!known) {
      return Error(reading.place,
                   fmt::format("format {} is not supported; these are: {}",
                               boost::json::serialize(*format).substr(0, 100), FormatNames()));
    }
    Result<std::string> read = ReadPattern(reading, "format", *known);
    if (!read.ok()) return read.status();
    reading.canonical["pattern"] = *read;
  } else if (has_length) {
    const Status status = Spend(reading, fmt::format("length {} {}", *min, *max),
                                std::min(std::max(*min, *max), kMaxCountedEach));
    if (!status.ok()) return status;
    return CopyCounts(reading, "minLength", "maxLength", kMaxRepeat);
  }
  return Status::Ok();
}

Result<std::string> SchemaReader::ReadPattern(const Reading& reading, std::string_view keyword,
                                              std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return Error(reading.place, fmt::format("{} has {} bytes, but must have at most {}", keyword,
                                            pattern.size(), kMaxPatternBytes));
  }
  const Result<GrammarTree> tree = ParseRegex(keyword, pattern);
  if (!tree.ok()) return Error(reading.place, tree.status().message());
  Result<std::string> printed = tree->PrintJsonPattern(0);
  if (!printed.ok()) {
    return Error(reading.place, fmt::format("{}: {}", keyword, printed.status().message()));
  }
  if (Status status = Spend(reading, *printed, tree->TotalCounts()); !status.ok()) return status;
  return printed;
}

Status SchemaReader::Spend(const Reading& reading, const std::string& kind, int64_t counts) {
  if (!kinds_.insert(kind).second) return Status::Ok();
  total_counts_ += counts;
  if (total_counts_ <= kMaxTotalCounts) return Status::Ok();
  return Error(reading.place,
               fmt::format("the counts of lengths and patterns add up to {} (each as at most {}), "
                           "but must add up to at most {}",
                           total_counts_, kMaxCountedEach, kMaxTotalCounts));
}

Result<int64_t> SchemaReader::ReadCount(const Reading& reading, std::string_view keyword,
                                        int64_t limit) const {
  const value* count = reading.schema.if_contains(keyword);
  if (count == nullptr) return int64_t{-1};
  const bool whole = count->is_int64() || count->is_uint64();
  const double number = whole ? count->to_number<double>() : -1.0;
  if (whole && number >= 0 && number <= static_cast<double>(limit))
    return count->to_number<int64_t>();
  return Error(reading.place,
               fmt::format("{} is {}, but must be a whole number in [0, {}]", keyword,
                           boost::json::serialize(*count).substr(0, 100), limit));
}

Status SchemaReader::CopyCounts(Reading& reading, std::string_view min, std::string_view max,
                                int64_t limit) {
  for (const std::string_view keyword : {min, max}) {
    const Result<int64_t> count = ReadCount(reading, keyword, limit);
    if (!count.ok()) return count.status();
    if (*count >= 0) reading.canonical[keyword] = *count;
  }
  return Status::Ok();
}

}  // namespace octavo::structured
