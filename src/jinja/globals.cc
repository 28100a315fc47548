#include <fmt/format.h>

#include "jinja/functions.h"
#include "jinja/interpreter.h"
#include "jinja/python_text.h"

namespace octavo::jinja {
namespace {

// start, stop and step of range(...); fails for what range() does not take.
bool ReadRange(Execution& execution, const Arguments& arguments, int64_t (&range)[3]) {
  const std::vector<Value>& given = arguments.positional;
  if (given.empty() || given.size() > 3 || !arguments.named.empty()) {
    execution.Fail("range() takes 1 to 3 arguments");
    return false;
  }
  for (const Value& value : given) {
    if (value.is_integer()) continue;
    execution.Fail(fmt::format("'{}' object cannot be interpreted as an integer", TypeName(value)));
    return false;
  }
  if (given.size() == 1) {
    range[1] = given[0].as_int();
  } else {
    for (size_t i = 0; i < given.size(); ++i) range[i] = given[i].as_int();
  }
  if (range[2] == 0) execution.Fail("range() arg 3 must not be zero");
  return range[2] != 0;
}

Value Range(Interpreter& interpreter, const Arguments& arguments) {
  Execution& execution = interpreter.execution();
  int64_t range[3] = {0, 0, 1};
  if (!ReadRange(execution, arguments, range)) return Value();
  auto sequence = std::make_shared<Sequence>();
  sequence->type = SequenceType::kRange;
  sequence->start = range[0];
  sequence->stop = range[1];
  sequence->step = range[2];
  for (int64_t i = range[0]; range[2] > 0 ? i < range[1] : i > range[1];) {
    if (static_cast<int64_t>(sequence->items.size()) == execution.limits().max_range) {
      return Fail(execution,
                  fmt::format("range() of more than {} elements", execution.limits().max_range));
    }
    sequence->items.push_back(Value::Int(i));
    if (!execution.Charge(1) || __builtin_add_overflow(i, range[2], &i)) break;
  }
  return Value::Of(std::shared_ptr<const Sequence>(std::move(sequence)));
}

// dict(mapping or pairs, name=value, ...): each entry is handed to `set`.
template <typename Set>
void ReadEntries(Execution& execution, const Arguments& arguments, Set set) {
  if (arguments.positional.size() > 1) execution.Fail("at most 1 argument expected");
  for (const Value& source : arguments.positional) {
    if (source.is(Kind::kDict)) {
      for (const auto& [key, value] : source.dict().items) set(key, value);
      continue;
    }
    for (const Value& pair : Elements(execution, source)) {
      const std::vector<Value> parts = Elements(execution, pair);
      if (parts.size() != 2) execution.Fail("an element that is not a pair");
      if (execution.failed()) return;
      set(parts[0], parts[1]);
    }
  }
  for (const auto& [name, value] : arguments.named) set(Value::Untrusted(name), value);
}

Value MakeDict(Interpreter& interpreter, const Arguments& arguments) {
  DictBuilder dict(interpreter.execution());
  ReadEntries(interpreter.execution(), arguments,
              [&dict](const Value& key, const Value& value) { dict.Set(key, value); });
  return dict.Take();
}

Value MakeNamespace(Interpreter& interpreter, const Arguments& arguments) {
  Value ns = interpreter.MakeNamespace();
  ReadEntries(interpreter.execution(), arguments, [&](const Value& key, const Value& value) {
    if (!interpreter.execution().Charge(1)) return;
    if (!key.is_string()) return interpreter.execution().Fail("attribute names must be strings");
    auto& attributes = ns.ns().attributes;
    for (auto& [name, there] : attributes) {
      if (!interpreter.execution().Charge(1)) return;
      if (name != key.bytes()) continue;
      there = value;
      return;
    }
    attributes.emplace_back(key.bytes(), value);
  });
  return ns;
}

Value RaiseException(Interpreter& interpreter, const Arguments& arguments) {
  const BoundArguments bound(interpreter.execution(), arguments, {"message"});
  const TrackedString message = Str(interpreter.execution(), bound.Need(0));
  interpreter.execution().Refuse(message.bytes());
  return Value();
}

Value StrftimeNow(Interpreter& interpreter, const Arguments& arguments) {
  const BoundArguments bound(interpreter.execution(), arguments, {"format"});
  bound.Need(0);
  const TrackedString format = bound.GetString(0);
  if (interpreter.execution().failed()) return Value();
  std::optional<std::string> text = interpreter.format_time()(format.bytes());
  if (!text) {
    return Fail(interpreter.execution(),
                fmt::format("strftime_now does not know the format '{}'", format.bytes()));
  }
  return Value::Untrusted(*std::move(text));
}

Value Unsupported(Interpreter& interpreter, const Arguments&) {
  return Fail(interpreter.execution(), "cycler, joiner and lipsum are not supported");
}

}  // namespace

Global FindGlobal(std::string_view name) {
  constexpr NamedFunction<Global> kGlobals[] = {
      {"range", Range},
      {"dict", MakeDict},
      {"namespace", MakeNamespace},
      {"raise_exception", RaiseException},
      {"strftime_now", StrftimeNow},
      {"cycler", Unsupported},
      {"joiner", Unsupported},
      {"lipsum", Unsupported},
  };
  for (const auto& [known, function] : kGlobals) {
    if (known == name) return function;
  }
  return nullptr;
}

}  // namespace octavo::jinja
