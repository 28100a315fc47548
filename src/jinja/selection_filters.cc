#include "jinja/selection_filters.h"

#include "jinja/interpreter.h"

namespace octavo::jinja {
namespace {

// The arguments behind the first `count`.
Arguments Rest(const Arguments& arguments, size_t count) {
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(count),
                         arguments.positional.end());
  rest.named = arguments.named;
  return rest;
}

Value MapAttribute(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  Execution& execution = interpreter.execution();
  const BoundArguments bound(execution, arguments, {"attribute", "default"});
  const bool has_default = bound.Has(1) && !bound.Get(1).is_none();
  const std::optional<Value> other =
      has_default ? std::optional<Value>(bound.Get(1)) : std::nullopt;
  std::vector<Value> items = Elements(execution, input);
  for (Value& item : items) {
    item = GetPath(interpreter, item, bound.Get(0), other);
    if (!execution.Charge(1)) break;
  }
  return MakeGenerator(execution, std::move(items));
}

Value Map(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  Execution& execution = interpreter.execution();
  if (!Truthy(input)) return MakeGenerator(execution, {});
  if (arguments.positional.empty() && !arguments.named.empty() &&
      (arguments.named[0].first == "attribute" || arguments.named.size() > 1)) {
    return MapAttribute(interpreter, input, arguments);
  }
  if (arguments.positional.empty() || !arguments.positional[0].is_string()) {
    return Fail(execution, "map requires a filter argument");
  }
  const std::string name(arguments.positional[0].bytes());
  const Arguments rest = Rest(arguments, 1);
  std::vector<Value> items = Elements(execution, input);
  for (Value& item : items) {
    item = interpreter.ApplyFilter(name, item, rest);
    if (!execution.Charge(1)) break;
  }
  return MakeGenerator(execution, std::move(items));
}

Value SelectElements(Interpreter& interpreter, const Value& input, const Arguments& arguments,
                     bool by_attribute, bool wanted) {
  Execution& execution = interpreter.execution();
  if (!Truthy(input)) return MakeGenerator(execution, {});
  const size_t num_before = by_attribute ? 1 : 0;
  if (arguments.positional.size() < num_before) {
    return Fail(execution, "Missing parameter for attribute name");
  }
  const bool has_test = arguments.positional.size() > num_before;
  if (has_test && !arguments.positional[num_before].is_string()) {
    return Fail(execution, "the name of a test must be a string");
  }
  const std::string test(has_test ? arguments.positional[num_before].bytes() : "");
  const Arguments rest = has_test ? Rest(arguments, num_before + 1) : Arguments{};
  std::vector<Value> kept;
  for (const Value& item : Elements(execution, input)) {
    const Value subject = by_attribute ? GetPath(interpreter, item, arguments.positional[0]) : item;
    const bool passes = has_test ? interpreter.ApplyTest(test, subject, rest) : Truthy(subject);
    if (!execution.Charge(1)) break;
    if (passes == wanted) kept.push_back(item);
  }
  return MakeGenerator(execution, std::move(kept));
}

template <bool kByAttribute, bool kWanted>
Value Selection(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  return SelectElements(interpreter, input, arguments, kByAttribute, kWanted);
}

}  // namespace

std::vector<NamedFunction<Filter>> SelectionFilters() {
  return {{"map", Map},
          {"reject", Selection<false, false>},
          {"rejectattr", Selection<true, false>},
          {"select", Selection<false, true>},
          {"selectattr", Selection<true, true>}};
}

}  // namespace octavo::jinja
