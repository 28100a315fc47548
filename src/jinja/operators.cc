#include "jinja/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "jinja/python_text.h"
#include "jinja/unicode.h"

namespace octavo::jinja {
namespace {

std::string_view Spelling(Op op) {
  constexpr std::string_view kSpellings[] = {
      "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};
  return kSpellings[static_cast<size_t>(op)];
}

Value FailTypes(Execution& execution, Op op, const Value& a, const Value& b) {
  if (a.is_undefined()) return FailUndefined(execution, a);
  if (b.is_undefined()) return FailUndefined(execution, b);
  return Fail(execution, fmt::format("unsupported operand type(s) for {}: '{}' and '{}'",
                                     Spelling(op), TypeName(a), TypeName(b)));
}

std::optional<int64_t> IntegerPower(int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return std::nullopt;
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return std::nullopt;
  }
  return result;
}

// Python's // and % round toward minus infinity.
int64_t FloorDivide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Value ApplyIntegers(Execution& execution, Op op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case Op::kAdd:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case Op::kSubtract:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case Op::kMultiply:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case Op::kFloorDivide:
    case Op::kModulo: {
      if (b == 0) return Fail(execution, "integer division or modulo by zero");
      overflow = b == -1 && __builtin_sub_overflow(int64_t{0}, a, &result);
      if (overflow) break;
      const int64_t quotient = FloorDivide(a, b);
      result = op == Op::kModulo ? a - quotient * b : quotient;
      break;
    }
    case Op::kPower: {
      const std::optional<int64_t> power = IntegerPower(a, b);
      overflow = !power.has_value();
      result = power.value_or(0);
      break;
    }
    default:
      break;
  }
  if (overflow) return Fail(execution, "an integer of more than 64 bits");
  return Value::Int(result);
}

Value ApplyFloats(Execution& execution, Op op, double a, double b) {
  const bool divides = op == Op::kDivide || op == Op::kFloorDivide || op == Op::kModulo;
  if (divides && b == 0) return Fail(execution, "division by zero");
  switch (op) {
    case Op::kAdd:
      return Value::Float(a + b);
    case Op::kSubtract:
      return Value::Float(a - b);
    case Op::kMultiply:
      return Value::Float(a * b);
    case Op::kDivide:
      return Value::Float(a / b);
    case Op::kFloorDivide:
      return Value::Float(std::floor(a / b));
    case Op::kModulo: {
      const double rest = std::fmod(a, b);
      return Value::Float(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
    }
    default:
      break;
  }
  const double power = std::pow(a, b);
  if (std::isnan(power) || std::isinf(power)) return Fail(execution, "a power out of range");
  return Value::Float(power);
}

Value AddStrings(Execution& execution, const TrackedString& a, const TrackedString& b) {
  const bool is_markup = a.is_markup() || b.is_markup();
  StringBuilder builder(execution);
  for (const TrackedString* part : {&a, &b}) {
    if (is_markup) {
      AppendEscaped(*part, &builder);
    } else {
      builder.Append(*part);
    }
  }
  return Value::String(builder.Take().WithMarkup(is_markup));
}

Value Repeat(Execution& execution, const Value& value, int64_t times) {
  if (value.is_string()) {
    StringBuilder builder(execution);
    for (int64_t i = 0; i < times && execution.Charge(1); ++i) builder.Append(value.string());
    return Value::String(builder.Take().WithMarkup(value.string().is_markup()));
  }
  std::vector<Value> items;
  const std::vector<Value>& once = value.sequence().items;
  for (int64_t i = 0; i < times && !once.empty(); ++i) {
    if (!execution.Charge(static_cast<int64_t>(once.size()))) break;
    items.insert(items.end(), once.begin(), once.end());
  }
  return MakeSequence(execution, value.sequence().type, std::move(items));
}

bool IsListOrTuple(const Value& value) {
  return value.is(Kind::kSequence) && (value.sequence().type == SequenceType::kList ||
                                       value.sequence().type == SequenceType::kTuple);
}

bool IsRepeatable(const Value& value) { return value.is_string() || IsListOrTuple(value); }

Value Concatenate(Execution& execution, const Value& a, const Value& b) {
  std::vector<Value> items = a.sequence().items;
  items.insert(items.end(), b.sequence().items.begin(), b.sequence().items.end());
  return MakeSequence(execution, a.sequence().type, std::move(items));
}

}  // namespace

Value ApplyBinary(Execution& execution, Op op, const Value& a, const Value& b) {
  if (!execution.Charge(1)) return Value();
  if (a.is_number() && b.is_number()) {
    const bool integers = a.is_integer() && b.is_integer() && op != Op::kDivide &&
                          !(op == Op::kPower && b.as_int() < 0);
    return integers ? ApplyIntegers(execution, op, a.as_int(), b.as_int())
                    : ApplyFloats(execution, op, a.as_float(), b.as_float());
  }
  if (op == Op::kAdd && a.is_string() && b.is_string()) {
    return AddStrings(execution, a.string(), b.string());
  }
  if (op == Op::kAdd && IsListOrTuple(a) && IsListOrTuple(b) &&
      a.sequence().type == b.sequence().type) {
    const size_t size = a.sequence().items.size() + b.sequence().items.size();
    if (!execution.Charge(static_cast<int64_t>(size))) return Value();
    return Concatenate(execution, a, b);
  }
  if (op == Op::kMultiply && IsRepeatable(a) && b.is_integer()) {
    return Repeat(execution, a, b.as_int());
  }
  if (op == Op::kMultiply && IsRepeatable(b) && a.is_integer()) {
    return Repeat(execution, b, a.as_int());
  }
  if (op == Op::kModulo && a.is_string()) return FormatPercent(execution, a.string(), b);
  return FailTypes(execution, op, a, b);
}

bool ApplyCompare(Execution& execution, Op op, const Value& a, const Value& b) {
  switch (op) {
    case Op::kEqual:
      return Equal(execution, a, b);
    case Op::kNotEqual:
      return !Equal(execution, a, b);
    case Op::kIn:
      return Contains(execution, b, a);
    case Op::kNotIn:
      return !Contains(execution, b, a);
    default:
      break;
  }
  const int order = Compare(execution, a, b, Spelling(op));
  switch (op) {
    case Op::kLess:
      return order < 0;
    case Op::kLessEqual:
      return order <= 0;
    case Op::kGreater:
      return order > 0;
    default:
      return order >= 0;
  }
}

Value Negate(Execution& execution, const Value& value) {
  if (value.is(Kind::kFloat)) return Value::Float(-value.as_float());
  if (value.is_integer()) return ApplyIntegers(execution, Op::kSubtract, 0, value.as_int());
  if (value.is_undefined()) return FailUndefined(execution, value);
  return Fail(execution, fmt::format("bad operand type for unary -: '{}'", TypeName(value)));
}

bool Contains(Execution& execution, const Value& haystack, const Value& needle) {
  if (haystack.is_string()) {
    if (!needle.is_string()) {
      if (needle.is_undefined()) {
        FailUndefined(execution, needle);
      } else {
        execution.Fail("'in <string>' requires string as left operand");
      }
      return false;
    }
    execution.ChargeBytes(haystack.bytes().size());
    return haystack.bytes().find(needle.bytes()) != std::string_view::npos;
  }
  if (haystack.is(Kind::kDict)) {
    if (!KeyOf(execution, needle)) execution.Fail("unhashable type in 'in'");
    return haystack.dict().Find(execution, needle) != nullptr;
  }
  for (const Value& item : Elements(execution, haystack)) {
    if (!execution.Charge(1)) return false;
    if (Equal(execution, item, needle)) return true;
  }
  return false;
}

}  // namespace octavo::jinja
