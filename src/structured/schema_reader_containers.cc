// What SchemaReader reads of arrays and objects.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "structured/grammar_limits.h"
#include "structured/schema_reader.h"

namespace octavo::structured {
namespace {

using boost::json::array;
using boost::json::value;

}  // namespace

Status SchemaReader::ReadArrayKeywords(Reading& reading) {
  if (Status status = CopyCounts(reading, "minItems", "maxItems", kMaxRepeat); !status.ok()) {
    return status;
  }
  const Result<int64_t> min_items = ReadCount(reading, "minItems", kMaxRepeat);
  size_t num_prefix_items = 0;
  if (const value* prefix = reading.schema.if_contains("prefixItems")) {
    if (!prefix->is_array() || prefix->get_array().empty()) {
      return Error(reading.place, "prefixItems must be an array that is not empty");
    }
    num_prefix_items = prefix->get_array().size();
    array items;
    for (size_t i = 0; i < num_prefix_items; ++i) {
      const Result<NodeId> item =
          ReadPart(reading, prefix->get_array()[i], fmt::format("prefixItems/{}", i));
      if (!item.ok()) return item.status();
      reading.node.needs.push_back(*item);
      items.push_back(Canonical(*item));
    }
    reading.canonical["prefixItems"] = std::move(items);
  }
  const value* items = reading.schema.if_contains("items");
  static const value kAnything = true;
  const bool closed = items == nullptr ? num_prefix_items > 0 : *items == value(false);
  if (closed) {
    reading.canonical["items"] = false;
    return Status::Ok();
  }
  const Result<NodeId> item = ReadPart(reading, items == nullptr ? kAnything : *items, "items");
  if (!item.ok()) return item.status();
  if (*min_items > static_cast<int64_t>(num_prefix_items)) reading.node.needs.push_back(*item);
  reading.canonical["items"] = Canonical(*item);
  return Status::Ok();
}

Status SchemaReader::ReadObjectKeywords(Reading& reading) {
  if (Status status = CopyCounts(reading, "minProperties", "maxProperties", kMaxProperties);
      !status.ok()) {
    return status;
  }
  if (Status status = ReadProperties(reading); !status.ok()) return status;
  if (Status status = CheckCountedProperties(reading); !status.ok()) return status;
  return ReadOtherProperties(reading);
}

// The library writes out which of the named properties may still come for each count.
Status SchemaReader::CheckCountedProperties(const Reading& reading) {
  const value* properties = reading.canonical.if_contains("properties");
  if (properties == nullptr) return Status::Ok();
  const auto num = static_cast<int64_t>(properties->get_object().size());
  for (const std::string_view keyword : {"minProperties", "maxProperties"}) {
    const value* count = reading.canonical.if_contains(keyword);
    if (count == nullptr || num * count->get_int64() <= kMaxCountedProperties) continue;
    return Error(reading.place,
                 fmt::format("{} is {} beside {} properties, but the product must be at most {}",
                             keyword, count->get_int64(), num, kMaxCountedProperties));
  }
  return Status::Ok();
}

Status SchemaReader::ReadProperties(Reading& reading) {
  static const value kNone = Object();
  const value* found = reading.schema.if_contains("properties");
  const value& properties = found == nullptr ? kNone : *found;
  if (!properties.is_object()) return Error(reading.place, "properties must be an object");
  if (properties.get_object().size() > static_cast<size_t>(kMaxProperties)) {
    return Error(reading.place, fmt::format("properties has {} members, but must have at most {}",
                                            properties.get_object().size(), kMaxProperties));
  }
  static const value kNoNames = array();
  const value* required = reading.schema.if_contains("required");
  const value& names = required == nullptr ? kNoNames : *required;
  if (!names.is_array()) return Error(reading.place, "required must be an array");
  for (const value& name : names.get_array()) {
    if (!name.is_string() || !properties.get_object().contains(name.get_string())) {
      return Error(reading.place, fmt::format("required holds {}, which properties lacks",
                                              boost::json::serialize(name).substr(0, 100)));
    }
  }
  Object canonical;
  for (const auto& [key, schema] : properties.get_object()) {
    const Result<NodeId> part = ReadPart(
        reading, schema, fmt::format("properties/{}", std::string_view(key).substr(0, 100)));
    if (!part.ok()) return part.status();
    const bool is_required = std::ranges::any_of(
        names.get_array(), [&k = key](const value& name) { return name.get_string() == k; });
    if (is_required) reading.node.needs.push_back(*part);
    canonical[key] = Canonical(*part);
  }
  if (found != nullptr) reading.canonical["properties"] = std::move(canonical);
  if (!names.get_array().empty()) reading.canonical["required"] = names;
  return Status::Ok();
}

// Those that are not named. An object that names none is open unless it says otherwise, one that
// names some is closed.
Status SchemaReader::ReadOtherProperties(Reading& reading) {
  const Object& schema = reading.schema;
  const value* patterns = schema.if_contains("patternProperties");
  const value* names = schema.if_contains("propertyNames");
  const value* others = schema.if_contains("additionalProperties");
  const bool is_closed = others != nullptr && *others == value(false);
  if ((patterns != nullptr ? 1 : 0) + (names != nullptr ? 1 : 0) +
          (schema.contains("properties") ? 1 : 0) >
      1) {
    return Error(reading.place,
                 "properties, patternProperties and propertyNames are not supported together");
  }
  if (patterns != nullptr) {
    if (!patterns->is_object() || patterns->get_object().size() != 1 ||
        (others != nullptr && !is_closed)) {
      return Error(reading.place,
                   "patternProperties must hold one pattern, without additionalProperties");
    }
    const auto& [key, part] = *patterns->get_object().begin();
    const Result<std::string> pattern = ReadPattern(reading, "patternProperties", key);
    if (!pattern.ok()) return pattern.status();
    const Result<NodeId> node = ReadPart(reading, part, "patternProperties/*");
    if (!node.ok()) return node.status();
    reading.canonical["patternProperties"] = Object{{*pattern, Canonical(*node)}};
    return Status::Ok();
  }
  if (names != nullptr) {
    if (is_closed) return Error(reading.place, "propertyNames beside additionalProperties false");
    if (!names->is_object()) return Error(reading.place, "propertyNames must be an object");
    Object as_string = names->get_object();
    as_string.emplace("type", "string");
    const Result<NodeId> node = ReadPart(reading, as_string, "propertyNames");
    if (!node.ok()) return node.status();
    reading.canonical["propertyNames"] = Canonical(*node);
  }
  if (others == nullptr) {
    reading.canonical["additionalProperties"] = !schema.contains("properties");
  } else if (others->is_bool()) {
    reading.canonical["additionalProperties"] = *others;
  } else {
    const Result<NodeId> node = ReadPart(reading, *others, "additionalProperties");
    if (!node.ok()) return node.status();
    reading.canonical["additionalProperties"] = Canonical(*node);
  }
  return Status::Ok();
}

}  // namespace octavo::structured
