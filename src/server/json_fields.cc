#include "server/json_fields.h"

#include <fmt/format.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <utility>

#include "text/utf8.h"

namespace octavo::server {

namespace json = boost::json;

namespace {

struct Marks {
  size_t num_colons = 0;
  size_t num_commas_and_openings = 0;
};

// Those outside of strings: at least as many as there are members, and as there are values but one.
Marks CountMarks(std::string_view body) {
  Marks marks;
  bool in_string = false;
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i] == '"') {
      in_string = !in_string;
    } else if (in_string && body[i] == '\\') {
      ++i;
    } else if (!in_string) {
      marks.num_colons += body[i] == ':';
      marks.num_commas_and_openings += body[i] == ',' || body[i] == '[' || body[i] == '{';
    }
  }
  return marks;
}

}  // namespace

ApiResult<json::object> ParseObject(std::string_view body, size_t max_depth) {
  // Objects with very many members, whose names can be chosen to collide, take time that grows with
  // the square; a value takes many times the bytes that it is sent as.
  constexpr size_t kMaxMembers = 65'536;
  constexpr size_t kMaxValues = size_t{1} << 20;
  const Marks marks = CountMarks(body);
  if (marks.num_colons > kMaxMembers) {
    return InvalidField("", fmt::format("the body has {} fields in its objects, but {} are the "
                                        "most",
                                        marks.num_colons, kMaxMembers));
  }
  if (marks.num_commas_and_openings > kMaxValues) {
    return InvalidField("", fmt::format("the body has {} values in its arrays and objects, but {} "
                                        "are the most",
                                        marks.num_commas_and_openings, kMaxValues));
  }
  json::parse_options options;
  options.max_depth = max_depth;
  boost::system::error_code error;
  json::value value = json::parse(body, error, {}, options);
  if (error) {
    ApiError failure = InvalidField("", fmt::format("the body is not JSON: {}", error.message()));
    if (error == json::error::too_deep) {
      failure.message = fmt::format("the body is nested deeper than {} levels", max_depth);
    }
    failure.code = "malformed_json";
    return failure;
  }
  if (!value.is_object()) {
    return InvalidField("",
                        fmt::format("the body is {}, but must be a JSON object", ShortJson(value)));
  }
  return std::move(value.get_object());
}

const json::value* JsonFields::Find(std::string_view name) const {
  const json::value* value = object_.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::optional<bool> JsonFields::Bool(std::string_view name) {
  const json::value* value = Find(name);
  if (value == nullptr || !ok()) return std::nullopt;
  if (value->is_bool()) return value->get_bool();
  Fail(name, "true or false");
  return std::nullopt;
}

std::optional<int64_t> JsonFields::Int(std::string_view name, int64_t low, int64_t high) {
  return WholeNumber(name, low, high, /*clamps=*/false);
}

std::optional<int64_t> JsonFields::ClampedInt(std::string_view name, int64_t low, int64_t high) {
  return WholeNumber(name, low, high, /*clamps=*/true);
}

std::optional<int64_t> JsonFields::WholeNumber(std::string_view name, int64_t low, int64_t high,
                                               bool clamps) {
  const json::value* value = Find(name);
  if (value == nullptr || !ok()) return std::nullopt;
  bool is_whole = value->is_number();
  bool is_above = false;
  bool is_below = false;
  int64_t whole = 0;
  if (value->is_int64()) {
    whole = value->get_int64();
  } else if (value->is_uint64()) {
    is_above = true;  // Boost.JSON gives uint64 only for what int64 cannot hold
  } else if (value->is_double()) {
    constexpr double kLimit = 9.2e18;
    const double number = value->get_double();
    is_whole = std::trunc(number) == number;
    is_above = number > kLimit;
    is_below = number < -kLimit;
    if (is_whole && !is_above && !is_below) whole = static_cast<int64_t>(number);
  }
  is_above = is_above || whole > high;
  is_below = is_below || whole < low;
  if (is_whole && is_above && clamps) return high;
  if (is_whole && !is_above && !is_below) return whole;
  Fail(name, clamps ? fmt::format("a whole number, at least {}", low)
                    : fmt::format("a whole number in [{}, {}]", low, high));
  return std::nullopt;
}

std::optional<double> JsonFields::Number(std::string_view name) {
  const json::value* value = Find(name);
  if (value == nullptr || !ok()) return std::nullopt;
  if (value->is_number()) return value->to_number<double>();
  Fail(name, "a number");
  return std::nullopt;
}

std::optional<std::string> JsonFields::String(std::string_view name, size_t max_bytes) {
  const json::value* value = Find(name);
  if (value == nullptr || !ok()) return std::nullopt;
  if (!value->is_string()) {
    Fail(name, "a string");
    return std::nullopt;
  }
  const json::string& text = value->get_string();
  if (text.size() > max_bytes) {
    Fail(name, fmt::format("at most {} bytes long, not {}", max_bytes, text.size()));
    return std::nullopt;
  }
  return std::string(text);
}

const json::array* JsonFields::Array(std::string_view name) {
  const json::value* value = Find(name);
  if (value == nullptr || !ok()) return nullptr;
  if (value->is_array()) return &value->get_array();
  Fail(name, "an array");
  return nullptr;
}

const json::object* JsonFields::Object(std::string_view name) {
  const json::value* value = Find(name);
  if (value == nullptr || !ok()) return nullptr;
  if (value->is_object()) return &value->get_object();
  Fail(name, "an object");
  return nullptr;
}

void JsonFields::Fail(std::string_view name, std::string_view what) {
  if (error_) return;
  const json::value* value = Find(name);
  error_ = InvalidField(
      path_ + std::string(name),
      value == nullptr
          ? fmt::format("{}{} is missing; it must be {}", path_, name, what)
          : fmt::format("{}{} is {}, but must be {}", path_, name, ShortJson(*value), what));
}

void JsonFields::Fail(std::string_view name, const ApiError& error) {
  if (error_) return;
  error_ = error;
  if (error_->param.empty()) error_->param = path_ + std::string(name);
}

std::string ShortJson(const json::value& value) {
  constexpr size_t kMaxBytes = 80;
  if (value.is_array()) return fmt::format("an array of {}", value.get_array().size());
  if (value.is_object()) return "an object";
  if (value.is_string()) {
    const json::string& text = value.get_string();
    if (text.size() <= kMaxBytes) return json::serialize(value);
    const std::string_view begin = std::string_view(text).substr(0, kMaxBytes);
    return json::serialize(json::value(begin.substr(0, text::ValidUtf8Prefix(begin)))) + "...";
  }
  if (value.is_double()) return fmt::format("{}", value.get_double());
  return json::serialize(value);
}

}  // namespace octavo::server
