// Attributes and items.

#include <fmt/format.h>

#include "jinja/interpreter.h"
#include "jinja/operators.h"
#include "jinja/unicode.h"

namespace octavo::jinja {
namespace {

Value NoAttribute(const Value& object, std::string_view name) {
  return Value::Undefined(
      object.is_none() ? fmt::format("'None' has no attribute '{}'", name)
                       : fmt::format("'{} object' has no attribute '{}'", TypeName(object), name));
}

NativeFunction CycleOf(const std::shared_ptr<Loop>& loop) {
  return [index = loop->index](Interpreter& interpreter, const Arguments& arguments) {
    if (arguments.positional.empty()) {
      return Fail(interpreter.execution(), "no items for cycling given");
    }
    return arguments.positional[index % arguments.positional.size()];
  };
}

NativeFunction ChangedOf(const std::shared_ptr<Loop>& loop) {
  return [weak = std::weak_ptr<Loop>(loop)](Interpreter& interpreter, const Arguments& arguments) {
    Execution& execution = interpreter.execution();
    Value now = MakeSequence(execution, SequenceType::kTuple, arguments.positional);
    const std::shared_ptr<Loop> strong = weak.lock();
    if (!strong) return Value::Bool(false);
    const bool changed = !strong->last_changed || !Equal(execution, *strong->last_changed, now);
    strong->last_changed = std::move(now);
    return Value::Bool(changed);
  };
}

Value MakeFunction(std::string_view name, NativeFunction call, int32_t depth = 1) {
  auto callable = std::make_shared<Callable>();
  callable->name = name;
  callable->call = std::move(call);
  callable->depth = depth;
  return Value::Of(std::shared_ptr<const Callable>(std::move(callable)));
}

}  // namespace

Value Interpreter::GetLoopAttribute(const std::shared_ptr<Loop>& loop, std::string_view name) {
  const auto index = static_cast<int64_t>(loop->index);
  const auto length = static_cast<int64_t>(loop->items.size());
  if (name == "index") return Value::Int(index + 1);
  if (name == "index0") return Value::Int(index);
  if (name == "revindex") return Value::Int(length - index);
  if (name == "revindex0") return Value::Int(length - index - 1);
  if (name == "first") return Value::Bool(index == 0);
  if (name == "last") return Value::Bool(index == length - 1);
  if (name == "length") return Value::Int(length);
  if (name == "depth") return Value::Int(loop->depth0 + 1);
  if (name == "depth0") return Value::Int(loop->depth0);
  if (name == "previtem") {
    return index > 0 ? loop->items[loop->index - 1] : Value::Undefined("there is no previous item");
  }
  if (name == "nextitem") {
    return index + 1 < length ? loop->items[loop->index + 1]
                              : Value::Undefined("there is no next item");
  }
  if (name == "cycle") return MakeFunction(name, CycleOf(loop));
  if (name == "changed") return MakeFunction(name, ChangedOf(loop));
  return NoAttribute(Value::Of(loop), name);
}

Value Interpreter::GetMethod(const Value& object, std::string_view name, bool* found) {
  Method method = nullptr;
  *found = true;
  switch (FindMethod(object, name, &method)) {
    case MethodFound::kFound:
      break;
    case MethodFound::kMissing:
      *found = false;
      return Value();
    case MethodFound::kUnsafe:
      return Value::Undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe.",
                                          name, TypeName(object)));
    case MethodFound::kUnsupported:
      return Fail(execution_, fmt::format("'{}.{}' is not supported", TypeName(object), name));
  }
  if (object.depth() >= kMaxValueDepth) return Fail(execution_, "values nested too deep");
  return MakeFunction(
      name,
      [method, object](Interpreter& interpreter, const Arguments& arguments) {
        return method(interpreter, object, arguments);
      },
      object.depth() + 1);
}

Value Interpreter::GetAttribute(const Value& object, std::string_view name) {
  if (object.is_undefined()) return FailUndefined(execution_, object);
  if (object.is(Kind::kLoop)) return GetLoopAttribute(object.loop(), name);
  if (object.is(Kind::kNamespace)) {
    for (const auto& [attribute, value] : object.ns().attributes) {
      if (!execution_.Charge(1)) return Value();
      if (attribute == name) return value;
    }
    return NoAttribute(object, name);
  }
  if (object.is(Kind::kCallable)) {
    const bool is_name = name == "name" && object.callable().is_macro;
    return is_name ? Value::Untrusted(object.callable().name) : NoAttribute(object, name);
  }
  bool found = false;
  Value method = GetMethod(object, name, &found);
  if (found) return method;
  if (object.is(Kind::kDict)) {
    execution_.Charge(static_cast<int64_t>(1 + name.size() / 32));
    if (const Value* value = object.dict().Find(name)) return *value;
  }
  return NoAttribute(object, name);
}

Value Interpreter::GetItem(const Value& object, const Value& key) {
  if (object.is_undefined()) return FailUndefined(execution_, object);
  if (object.is(Kind::kDict)) {
    if (const Value* value = object.dict().Find(execution_, key)) return *value;
  }
  const bool is_list = object.is(Kind::kSequence) &&
                       object.sequence().type <= SequenceType::kRange;  // list, tuple, range
  if (key.is_integer() && (is_list || object.is_string())) {
    const int64_t length = Length(object).value_or(0);
    const int64_t index = key.as_int() < 0 ? key.as_int() + length : key.as_int();
    if (index >= 0 && index < length) {
      if (is_list) return object.sequence().items[static_cast<size_t>(index)];
      if (!execution_.ChargeBytes(object.bytes().size())) return Value();
      const size_t begin = OffsetOf(object.bytes(), index);
      return Value::String(
          Slice(execution_, object.string(), begin, begin + CharacterBytes(object.bytes(), begin)));
    }
    return Value::Undefined(
        fmt::format("{} object has no element {}", TypeName(object), key.as_int()));
  }
  if (key.is_string() && !object.is(Kind::kDict)) return GetAttribute(object, key.bytes());
  if (key.is_string()) {
    bool found = false;
    Value method = GetMethod(object, key.bytes(), &found);
    if (found) return method;
    return NoAttribute(object, key.bytes());
  }
  return Value::Undefined(fmt::format("'{} object' has no such element", TypeName(object)));
}

}  // namespace octavo::jinja
