// The tests that stand behind `is`.

#include <fmt/format.h>

#include "jinja/functions.h"
#include "jinja/interpreter.h"
#include "jinja/operators.h"
#include "jinja/python_text.h"
#include "jinja/unicode.h"

namespace octavo::jinja {
namespace {

template <bool (*kIs)(const Value&)>
bool Plain(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(interpreter.execution(), arguments, {});
  return kIs(input);
}

bool IsDefined(const Value& value) { return !value.is_undefined(); }
bool IsUndefined(const Value& value) { return value.is_undefined(); }
bool IsNone(const Value& value) { return value.is_none(); }
bool IsBoolean(const Value& value) { return value.is(Kind::kBool); }
bool IsTrue(const Value& value) { return value.is(Kind::kBool) && value.as_bool(); }
bool IsFalse(const Value& value) { return value.is(Kind::kBool) && !value.as_bool(); }
bool IsInteger(const Value& value) { return value.is(Kind::kInt); }
bool IsFloat(const Value& value) { return value.is(Kind::kFloat); }
bool IsNumber(const Value& value) { return value.is_number(); }
bool IsString(const Value& value) { return value.is_string(); }
bool IsMapping(const Value& value) { return value.is(Kind::kDict); }
bool IsCallable(const Value& value) {
  return value.is(Kind::kCallable) || value.is_undefined() || value.is(Kind::kLoop);
}
bool IsIterable(const Value& value) {
  return value.is_undefined() || value.is_string() || value.is(Kind::kSequence) ||
         value.is(Kind::kDict) || value.is(Kind::kLoop);
}
bool IsSequence(const Value& value) {
  if (value.is(Kind::kSequence)) return value.sequence().type <= SequenceType::kRange;
  return value.is_undefined() || value.is_string() || value.is(Kind::kDict);
}
bool IsEscaped(const Value& value) { return value.is_string() && value.string().is_markup(); }

template <Op kOp>
bool Compared(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(interpreter.execution(), arguments, {"other"});
  const Value other = bound.Need(0);
  return !interpreter.execution().failed() &&
         ApplyCompare(interpreter.execution(), kOp, input, other);
}

bool SameAs(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  return input.SameAs(BoundArguments(interpreter.execution(), arguments, {"other"}).Need(0));
}

bool DivisibleBy(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(interpreter.execution(), arguments, {"num"});
  const Value rest = ApplyBinary(interpreter.execution(), Op::kModulo, input, bound.Need(0));
  return rest.is_number() && rest.as_float() == 0;
}

template <int64_t kRest>
bool HasParity(Interpreter& interpreter, const Value& input, const Arguments&) {
  const Value rest = ApplyBinary(interpreter.execution(), Op::kModulo, input, Value::Int(2));
  return rest.is_number() && rest.as_float() == static_cast<double>(kRest);
}

// str.islower and str.isupper of the value's text.
template <bool (*kIs)(int32_t), bool (*kIsOther)(int32_t)>
bool HasCase(Interpreter& interpreter, const Value& input, const Arguments&) {
  const TrackedString text = Str(interpreter.execution(), input);
  bool any = false;
  for (size_t at = 0; at < text.size(); at += CharacterBytes(text.bytes(), at)) {
    const int32_t code_point = CodePointAt(text.bytes(), at);
    if (!interpreter.execution().Charge(1) || kIsOther(code_point)) return false;
    any = any || kIs(code_point);
  }
  return any;
}

bool IsFilterName(Interpreter&, const Value& input, const Arguments&) {
  return input.is_string() && FindFilter(input.bytes()) != nullptr;
}
bool IsTestName(Interpreter&, const Value& input, const Arguments&) {
  return input.is_string() && FindTest(input.bytes()) != nullptr;
}

constexpr NamedFunction<Test> kTests[] = {
    {"defined", Plain<IsDefined>},
    {"undefined", Plain<IsUndefined>},
    {"none", Plain<IsNone>},
    {"boolean", Plain<IsBoolean>},
    {"true", Plain<IsTrue>},
    {"false", Plain<IsFalse>},
    {"integer", Plain<IsInteger>},
    {"float", Plain<IsFloat>},
    {"number", Plain<IsNumber>},
    {"string", Plain<IsString>},
    {"mapping", Plain<IsMapping>},
    {"callable", Plain<IsCallable>},
    {"iterable", Plain<IsIterable>},
    {"sequence", Plain<IsSequence>},
    {"escaped", Plain<IsEscaped>},
    {"eq", Compared<Op::kEqual>},
    {"equalto", Compared<Op::kEqual>},
    {"==", Compared<Op::kEqual>},
    {"ne", Compared<Op::kNotEqual>},
    {"!=", Compared<Op::kNotEqual>},
    {"lt", Compared<Op::kLess>},
    {"lessthan", Compared<Op::kLess>},
    {"<", Compared<Op::kLess>},
    {"le", Compared<Op::kLessEqual>},
    {"<=", Compared<Op::kLessEqual>},
    {"gt", Compared<Op::kGreater>},
    {"greaterthan", Compared<Op::kGreater>},
    {">", Compared<Op::kGreater>},
    {"ge", Compared<Op::kGreaterEqual>},
    {">=", Compared<Op::kGreaterEqual>},
    {"in", Compared<Op::kIn>},
    {"sameas", SameAs},
    {"divisibleby", DivisibleBy},
    {"even", HasParity<0>},
    {"odd", HasParity<1>},
    {"lower", HasCase<IsLower, IsUpper>},
    {"upper", HasCase<IsUpper, IsLower>},
    {"filter", IsFilterName},
    {"test", IsTestName},
};

}  // namespace

Test FindTest(std::string_view name) {
  for (const auto& [known, function] : kTests) {
    if (known == name) return function;
  }
  return nullptr;
}

}  // namespace octavo::jinja
