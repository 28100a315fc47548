// Macros and calls.

#include <fmt/format.h>

#include <algorithm>

#include "jinja/interpreter.h"

namespace octavo::jinja {
namespace {

// Takes the argument of this name away; nothing if there is none.
std::optional<Value> TakeNamed(std::vector<std::pair<std::string, Value>>* named,
                               std::string_view name) {
  const auto found = std::find_if(named->begin(), named->end(),
                                  [name](const auto& entry) { return entry.first == name; });
  if (found == named->end()) return std::nullopt;
  Value value = std::move(found->second);
  named->erase(found);
  return value;
}

}  // namespace

Value Interpreter::MakeMacro(const Stmt& stmt) {
  execution_.Charge(50);
  captured_scopes_.push_back(scope_);
  auto callable = std::make_shared<Callable>();
  callable->name = stmt.signature->name;
  callable->is_macro = true;
  callable->call = [&stmt, closure = scope_](Interpreter& interpreter, const Arguments& arguments) {
    return interpreter.CallMacro(stmt, closure, arguments);
  };
  return Value::Of(std::shared_ptr<const Callable>(std::move(callable)));
}

void Interpreter::RunMacro(const Stmt& stmt) {
  scope_->Set(stmt.signature->name_id, MakeMacro(stmt));
}

void Interpreter::RunCallBlock(const Stmt& stmt) {
  const Value caller = MakeMacro(stmt);
  const Value result = EvaluateCall(*stmt.expr, &caller);
  if (result.is_string()) {
    output_->Append(result.string());
  } else if (!result.is_undefined()) {
    execution_.Fail("a call block needs a macro that gives text");
  }
}

Value Interpreter::CallMacro(const Stmt& stmt, const std::shared_ptr<Scope>& closure,
                             const Arguments& arguments) {
  const DepthGuard depth(execution_, &depth_);
  if (!depth.ok() || !execution_.Charge(5)) return Value();
  const int32_t line = execution_.line();
  const std::shared_ptr<Scope> saved = scope_;
  scope_ = std::make_shared<Scope>();
  scope_->parent = closure;
  TrackedString text;
  if (BindParameters(*stmt.signature, arguments)) text = Capture(stmt.bodies[0]);
  scope_ = saved;
  execution_.set_line(line);
  return Value::String(std::move(text));
}

bool Interpreter::BindParameters(const Signature& signature, const Arguments& arguments) {
  const size_t num_parameters = signature.parameters.size();
  const size_t num_given = std::min(arguments.positional.size(), num_parameters);
  const size_t first_default = num_parameters - signature.defaults.size();
  std::vector<std::pair<std::string, Value>> named = arguments.named;
  for (size_t i = 0; i < num_parameters; ++i) {
    const std::string& name = signature.parameter_names[i];
    std::optional<Value> value;
    if (i < num_given) {
      value = arguments.positional[i];
    } else {
      value = TakeNamed(&named, name);
    }
    if (!value && i >= first_default) value = Evaluate(*signature.defaults[i - first_default]);
    if (!value) value = Value::Undefined(fmt::format("parameter '{}' was not provided", name));
    scope_->Set(signature.parameters[i], *std::move(value));
  }
  if (signature.uses_caller) {
    scope_->Set(program_.names.Find("caller"),
                TakeNamed(&named, "caller").value_or(Value::Undefined("No caller defined")));
  }
  if (signature.uses_kwargs) {
    DictBuilder rest(execution_);
    for (auto& [name, value] : named) rest.Set(Value::Untrusted(name), std::move(value));
    scope_->Set(program_.names.Find("kwargs"), rest.Take());
  } else if (!named.empty()) {
    execution_.Fail(
        fmt::format("macro '{}' takes no keyword argument '{}'", signature.name, named[0].first));
  }
  if (signature.uses_varargs) {
    scope_->Set(program_.names.Find("varargs"),
                MakeSequence(execution_, SequenceType::kTuple,
                             {arguments.positional.begin() + static_cast<std::ptrdiff_t>(num_given),
                              arguments.positional.end()}));
  } else if (arguments.positional.size() > num_parameters) {
    execution_.Fail(fmt::format("macro '{}' takes not more than {} argument(s)", signature.name,
                                num_parameters));
  }
  return !execution_.failed();
}

Value Interpreter::Call(const Value& callee, const Arguments& arguments) {
  const DepthGuard depth(execution_, &depth_);
  if (!depth.ok() || !execution_.Charge(1)) return Value();
  if (callee.is(Kind::kCallable)) return callee.callable().call(*this, arguments);
  if (callee.is(Kind::kLoop)) {
    if (callee.loop()->recurse) return callee.loop()->recurse(*this, arguments);
    return Fail(execution_, "the loop must have the 'recursive' marker to be called");
  }
  if (callee.is_undefined()) return FailUndefined(execution_, callee);
  return Fail(execution_, fmt::format("'{}' object is not callable", TypeName(callee)));
}

Value Interpreter::ApplyFilter(std::string_view name, const Value& input,
                               const Arguments& arguments) {
  const Filter filter = FindFilter(name);
  if (filter == nullptr) return Fail(execution_, fmt::format("No filter named '{}'", name));
  if (!execution_.Charge(1)) return Value();
  return filter(*this, input, arguments);
}

bool Interpreter::ApplyTest(std::string_view name, const Value& input, const Arguments& arguments) {
  const Test test = FindTest(name);
  if (test == nullptr) execution_.Fail(fmt::format("No test named '{}'", name));
  if (!execution_.Charge(1)) return false;
  return test(*this, input, arguments);
}

}  // namespace octavo::jinja
