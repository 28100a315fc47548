// Expressions.

#include <fmt/format.h>

#include "jinja/interpreter.h"
#include "jinja/operators.h"
#include "jinja/python_text.h"

namespace octavo::jinja {

Value Interpreter::Evaluate(const Expr& expr) {
  const DepthGuard depth(execution_, &depth_);
  if (!depth.ok() || !execution_.Charge(1)) return Value();
  return EvaluateNode(expr);
}

Value Interpreter::EvaluateNode(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::kConst:
      return expr.value;
    case ExprKind::kName:
      return EvaluateName(expr);
    case ExprKind::kTuple:
    case ExprKind::kList:
      return EvaluateItems(expr);
    case ExprKind::kDict:
      return EvaluateDict(expr);
    case ExprKind::kCond:
      return EvaluateCondition(expr);
    case ExprKind::kAnd: {
      Value left = Evaluate(*expr.children[0]);
      return Truthy(left) ? Evaluate(*expr.children[1]) : left;
    }
    case ExprKind::kOr: {
      Value left = Evaluate(*expr.children[0]);
      return Truthy(left) ? left : Evaluate(*expr.children[1]);
    }
    case ExprKind::kNot:
      return Value::Bool(!Truthy(Evaluate(*expr.children[0])));
    case ExprKind::kCompare:
      return EvaluateCompare(expr);
    case ExprKind::kBinary: {
      const Value left = Evaluate(*expr.children[0]);
      const Value right = Evaluate(*expr.children[1]);
      execution_.set_line(expr.line);
      return ApplyBinary(execution_, expr.ops[0], left, right);
    }
    case ExprKind::kConcat:
      return EvaluateConcat(expr);
    case ExprKind::kNegative:
      return Negate(execution_, Evaluate(*expr.children[0]));
    case ExprKind::kPositive: {
      Value value = Evaluate(*expr.children[0]);
      if (value.is(Kind::kBool)) return Value::Int(value.as_int());
      return value.is_number() ? value : Fail(execution_, "bad operand type for unary +");
    }
    case ExprKind::kAttribute: {
      const Value object = Evaluate(*expr.children[0]);
      execution_.set_line(expr.line);
      return GetAttribute(object, expr.text);
    }
    case ExprKind::kItem:
      return EvaluateItem(expr);
    case ExprKind::kCall:
      return EvaluateCall(expr);
    case ExprKind::kFilter:
      return EvaluateFilter(expr, nullptr);
    case ExprKind::kTest:
      return EvaluateTest(expr);
    case ExprKind::kSlice:
    case ExprKind::kNamespaceAttribute:
      break;
  }
  return Fail(execution_, "this expression has no value here");
}

Value Interpreter::EvaluateName(const Expr& expr) {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
    if (!execution_.Charge(1)) return Value();
    if (const Value* value = scope->Find(expr.name)) return *value;
  }
  const std::string& name = program_.names[expr.name];
  if (const Global global = FindGlobal(name)) {
    auto callable = std::make_shared<Callable>();
    callable->name = name;
    callable->call = global;
    return Value::Of(std::shared_ptr<const Callable>(std::move(callable)));
  }
  return Value::Undefined(fmt::format("'{}' is undefined", name));
}

Value Interpreter::EvaluateItems(const Expr& expr) {
  std::vector<Value> items;
  items.reserve(expr.children.size());
  for (const ExprPtr& child : expr.children) items.push_back(Evaluate(*child));
  const bool is_tuple = expr.kind == ExprKind::kTuple;
  return MakeSequence(execution_, is_tuple ? SequenceType::kTuple : SequenceType::kList,
                      std::move(items));
}

Value Interpreter::EvaluateDict(const Expr& expr) {
  DictBuilder dict(execution_);
  for (size_t i = 0; i + 1 < expr.children.size(); i += 2) {
    Value key = Evaluate(*expr.children[i]);
    dict.Set(std::move(key), Evaluate(*expr.children[i + 1]));
  }
  return dict.Take();
}

Value Interpreter::EvaluateCondition(const Expr& expr) {
  if (Truthy(Evaluate(*expr.children[0]))) return Evaluate(*expr.children[1]);
  if (expr.children[2]) return Evaluate(*expr.children[2]);
  return Value::Undefined(
      "the inline if-expression evaluated to false and no else section was defined");
}

Value Interpreter::EvaluateCompare(const Expr& expr) {
  Value left = Evaluate(*expr.children[0]);
  for (size_t i = 0; i < expr.ops.size(); ++i) {
    Value right = Evaluate(*expr.children[i + 1]);
    execution_.set_line(expr.line);
    if (!ApplyCompare(execution_, expr.ops[i], left, right)) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

Value Interpreter::EvaluateConcat(const Expr& expr) {
  StringBuilder builder(execution_);
  for (const ExprPtr& child : expr.children) {
    AppendStr(execution_, Evaluate(*child), &builder);
  }
  return Value::String(builder.Take());
}

Value Interpreter::EvaluateItem(const Expr& expr) {
  const Value object = Evaluate(*expr.children[0]);
  const Expr& index = *expr.children[1];
  if (index.kind != ExprKind::kSlice) {
    const Value key = Evaluate(index);
    execution_.set_line(expr.line);
    return GetItem(object, key);
  }
  Value parts[3];
  for (size_t i = 0; i < 3; ++i) {
    if (!index.children[i]) continue;
    parts[i] = Evaluate(*index.children[i]);
    if (parts[i].is_undefined()) return FailUndefined(execution_, parts[i]);
  }
  execution_.set_line(expr.line);
  return ApplySlice(execution_, object, parts[0], parts[1], parts[2]);
}

Arguments Interpreter::EvaluateArguments(const CallArguments& arguments) {
  Arguments values;
  for (const ExprPtr& expr : arguments.positional) values.positional.push_back(Evaluate(*expr));
  for (const auto& [name, expr] : arguments.named) values.named.emplace_back(name, Evaluate(*expr));
  if (arguments.star) {
    for (Value& value : Elements(execution_, Evaluate(*arguments.star))) {
      values.positional.push_back(std::move(value));
    }
  }
  if (!arguments.star_star) return values;
  const Value more = Evaluate(*arguments.star_star);
  if (!more.is(Kind::kDict)) {
    execution_.Fail("the argument after ** must be a mapping");
    return values;
  }
  for (const auto& [key, value] : more.dict().items) {
    if (!key.is_string()) execution_.Fail("keywords must be strings");
    if (!execution_.Charge(1)) break;
    values.named.emplace_back(key.bytes(), value);
  }
  return values;
}

Value Interpreter::EvaluateCall(const Expr& expr, const Value* caller) {
  const Value callee = Evaluate(*expr.children[0]);
  Arguments arguments = EvaluateArguments(expr.arguments);
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  execution_.set_line(expr.line);
  return execution_.failed() ? Value() : Call(callee, arguments);
}

// A block's filters end in one without an input, which gets the block's text.
Value Interpreter::EvaluateFilter(const Expr& expr, const Value* block) {
  const DepthGuard depth(execution_, &depth_);
  if (!depth.ok()) return Value();
  const Expr* inner = expr.children[0].get();
  Value input;
  if (inner == nullptr) {
    if (block != nullptr) input = *block;
  } else {
    const bool is_chain = block != nullptr && inner->kind == ExprKind::kFilter;
    input = is_chain ? EvaluateFilter(*inner, block) : Evaluate(*inner);
  }
  const Arguments arguments = EvaluateArguments(expr.arguments);
  execution_.set_line(expr.line);
  return execution_.failed() ? Value() : ApplyFilter(expr.text, input, arguments);
}

Value Interpreter::EvaluateTest(const Expr& expr) {
  const Value input = Evaluate(*expr.children[0]);
  const Arguments arguments = EvaluateArguments(expr.arguments);
  execution_.set_line(expr.line);
  return Value::Bool(!execution_.failed() && ApplyTest(expr.text, input, arguments));
}

}  // namespace octavo::jinja
