#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "jinja/functions.h"
#include "jinja/interpreter.h"
#include "jinja/operators.h"
#include "jinja/python_text.h"
#include "jinja/string_ops.h"

namespace octavo::jinja {
namespace {

Value Abs(Interpreter& interpreter, const Value& input, const Arguments&) {
  if (input.is(Kind::kFloat)) return Value::Float(std::fabs(input.as_float()));
  if (!input.is_integer()) {
    return input.is_undefined() ? FailUndefined(interpreter.execution(), input)
                                : Fail(interpreter.execution(), "abs needs a number");
  }
  return input.as_int() < 0 ? Negate(interpreter.execution(), input) : Value::Int(input.as_int());
}

Value Default(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(interpreter.execution(), arguments, {"default_value", "boolean"});
  const bool replaced = input.is_undefined() || (bound.GetBool(1, false) && !Truthy(input));
  return replaced ? bound.GetOr(0, Value::String(TrackedString())) : input;
}

// float(text) of Python, without its words for infinity and NaN.
std::optional<double> ParseFloat(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\n\r\f\v");
  if (begin == std::string_view::npos) return std::nullopt;
  text = text.substr(begin, text.find_last_not_of(" \t\n\r\f\v") - begin + 1);
  if (text.starts_with('+')) text.remove_prefix(1);
  const size_t first = text.starts_with('-') ? 1 : 0;
  if (text.size() == first || std::string_view("0123456789.").find(text[first]) == text.npos) {
    return std::nullopt;
  }
  double number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool good = parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
  return good ? std::optional<double>(number) : std::nullopt;
}

std::optional<int64_t> ParseInt(std::string_view text, int64_t base) {
  const size_t begin = text.find_first_not_of(" \t\n\r\f\v");
  if (begin == std::string_view::npos || base < 2 || base > 36) return std::nullopt;
  text = text.substr(begin, text.find_last_not_of(" \t\n\r\f\v") - begin + 1);
  if (text.starts_with('+')) text.remove_prefix(1);
  if (base == 16 && (text.starts_with("0x") || text.starts_with("0X"))) text.remove_prefix(2);
  int64_t number = 0;
  const auto parsed =
      std::from_chars(text.data(), text.data() + text.size(), number, static_cast<int>(base));
  const bool good = parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
  return good ? std::optional<int64_t>(number) : std::nullopt;
}

Value Truncated(double number, const Value& other) {
  return std::fabs(number) < 9e18 ? Value::Int(static_cast<int64_t>(number)) : other;
}

Value ToInt(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(interpreter.execution(), arguments, {"default", "base"});
  const Value other = bound.GetOr(0, Value::Int(0));
  if (input.is_undefined()) return FailUndefined(interpreter.execution(), input);
  if (input.is_integer()) return Value::Int(input.as_int());
  if (input.is(Kind::kFloat)) return Truncated(input.as_float(), other);
  if (!input.is_string()) return other;
  if (const auto number = ParseInt(input.bytes(), bound.GetInt(1, 10))) return Value::Int(*number);
  const std::optional<double> number = ParseFloat(input.bytes());
  return number ? Truncated(*number, other) : other;
}

Value ToFloat(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(interpreter.execution(), arguments, {"default"});
  const Value other = bound.GetOr(0, Value::Float(0));
  if (input.is_undefined()) return FailUndefined(interpreter.execution(), input);
  if (input.is_number()) return Value::Float(input.as_float());
  if (!input.is_string()) return other;
  const std::optional<double> number = ParseFloat(input.bytes());
  return number ? Value::Float(*number) : other;
}

// The decimal digits decide, as in Python: 2.675 rounds to 2.67, 0.5 to 0.
double RoundHalfEven(double value, int64_t precision) {
  if (precision > 300 || !std::isfinite(value)) return value;
  if (precision >= 0) {
    const std::string text = fmt::format("{:.{}f}", value, static_cast<int>(precision));
    double rounded = 0;
    std::from_chars(text.data(), text.data() + text.size(), rounded);
    return rounded;
  }
  const double scale = std::pow(10.0, static_cast<double>(-precision));
  return std::nearbyint(value / scale) * scale;
}

Value Round(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  Execution& execution = interpreter.execution();
  const BoundArguments bound(execution, arguments, {"precision", "method"});
  const int64_t precision = bound.GetInt(0, 0);
  const TrackedString method = bound.GetString(1, "common");
  if (input.is_undefined()) return FailUndefined(execution, input);
  if (!input.is_number()) return Fail(execution, "round needs a number");
  if (precision < -300 || precision > 300) return Fail(execution, "round: precision out of range");
  if (method.bytes() == "common") {
    if (input.is_integer() && precision >= 0) return Value::Int(input.as_int());
    const double rounded = RoundHalfEven(input.as_float(), precision);
    return input.is_integer() ? Truncated(rounded, Value::Int(0)) : Value::Float(rounded);
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = input.as_float() * scale;
  if (method.bytes() == "ceil") return Value::Float(std::ceil(scaled) / scale);
  if (method.bytes() == "floor") return Value::Float(std::floor(scaled) / scale);
  return Fail(execution, "method must be common, ceil or floor");
}

TrackedString IndentOf(Execution& execution, const Value& indent) {
  if (indent.is_string()) return indent.string();
  if (!indent.is_integer()) execution.Fail("tojson: indent must be a number or a string");
  if (execution.failed() || indent.as_int() <= 0) return TrackedString();
  if (indent.as_int() > 1000) execution.Fail("tojson: an indent above 1000");
  return TrackedString::Untrusted(
      std::string(static_cast<size_t>(std::min<int64_t>(indent.as_int(), 1000)), ' '));
}

Value ToJson(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  Execution& execution = interpreter.execution();
  const BoundArguments bound(execution, arguments,
                             {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = bound.GetBool(0, false);
  style.sort_keys = bound.GetBool(3, false);
  if (bound.Has(1) && !bound.Get(1).is_none()) style.indent = IndentOf(execution, bound.Get(1));
  style.item_separator = TrackedString::Untrusted(style.indent ? "," : ", ");
  style.key_separator = TrackedString::Untrusted(": ");
  if (bound.Has(2) && !bound.Get(2).is_none()) {
    const std::vector<Value> parts = Elements(execution, bound.Get(2));
    if (parts.size() != 2 || !parts[0].is_string() || !parts[1].is_string()) {
      return Fail(execution, "tojson: separators must be two strings");
    }
    style.item_separator = parts[0].string();
    style.key_separator = parts[1].string();
  }
  StringBuilder builder(execution);
  AppendJson(execution, input, style, &builder);
  return Value::String(builder.Take());
}

Value Attr(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(interpreter.execution(), arguments, {"name"});
  bound.Need(0);
  const TrackedString name = bound.GetString(0);
  if (input.is(Kind::kDict)) {  // never an entry
    Method method = nullptr;
    if (FindMethod(input, name.bytes(), &method) == MethodFound::kMissing) {
      return Value::Undefined(fmt::format("'dict object' has no attribute '{}'", name.bytes()));
    }
  }
  return interpreter.GetAttribute(input, name.bytes());
}

}  // namespace

std::vector<NamedFunction<Filter>> ValueFilters() {
  return {{"abs", Abs},       {"attr", Attr}, {"d", Default},   {"default", Default},
          {"float", ToFloat}, {"int", ToInt}, {"round", Round}, {"tojson", ToJson}};
}

}  // namespace octavo::jinja
