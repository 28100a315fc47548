#include "jinja/interpreter.h"

#include <fmt/format.h>

#include <algorithm>

#include "jinja/python_text.h"

namespace octavo::jinja {

const Value* Scope::Find(NameId name) const {
  for (const auto& [id, value] : variables) {
    if (id == name) return &value;
  }
  return nullptr;
}

void Scope::Set(NameId name, Value value) {
  for (auto& [id, there] : variables) {
    if (id != name) continue;
    there = std::move(value);
    return;
  }
  variables.emplace_back(name, std::move(value));
}

// A scope of its own for as long as it lives.
class Interpreter::ScopeGuard {
 public:
  ScopeGuard(Interpreter& interpreter, std::shared_ptr<Scope> parent)
      : interpreter_(interpreter), saved_(interpreter.scope_) {
    interpreter_.execution_.Charge(2);
    interpreter_.scope_ = std::make_shared<Scope>();
    interpreter_.scope_->parent = std::move(parent);
  }
  explicit ScopeGuard(Interpreter& interpreter) : ScopeGuard(interpreter, interpreter.scope_) {}
  ~ScopeGuard() { interpreter_.scope_ = std::move(saved_); }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  Interpreter& interpreter_;
  std::shared_ptr<Scope> saved_;
};

// What is printed while it lives goes into its own text.
class Interpreter::OutputGuard {
 public:
  explicit OutputGuard(Interpreter& interpreter)
      : interpreter_(interpreter), builder_(interpreter.execution_), saved_(interpreter.output_) {
    interpreter_.output_ = &builder_;
  }
  ~OutputGuard() { interpreter_.output_ = saved_; }
  OutputGuard(const OutputGuard&) = delete;
  OutputGuard& operator=(const OutputGuard&) = delete;
  TrackedString Take() { return builder_.Take(); }

 private:
  Interpreter& interpreter_;
  StringBuilder builder_;
  StringBuilder* saved_;
};

Interpreter::Interpreter(Execution& execution, const Program& program, FormatTime format_time)
    : execution_(execution),
      program_(program),
      format_time_(std::move(format_time)),
      loop_name_(program.names.Find("loop")),
      scope_(std::make_shared<Scope>()) {}

// Each value is dropped while all scopes and namespaces are still held, so that destruction never
// walks from one to the next.
Interpreter::~Interpreter() {
  for (const auto& scope : captured_scopes_) scope->variables.clear();
  for (const auto& ns : namespaces_) ns->attributes.clear();
}

void Interpreter::SetVariable(const std::string& name, Value value) {
  const NameId id = program_.names.Find(name);
  if (id != kNoName) scope_->Set(id, std::move(value));
}

TrackedString Interpreter::Render() { return Capture(program_.body); }

Value Interpreter::MakeNamespace() {
  execution_.Charge(100);
  namespaces_.push_back(std::make_shared<Namespace>());
  return Value::Of(namespaces_.back());
}

TrackedString Interpreter::Capture(const Body& body) {
  OutputGuard output(*this);
  Run(body);
  return output.Take();
}

Interpreter::Flow Interpreter::Run(const Body& body) {
  for (const auto& stmt : body) {
    const Flow flow = Run(*stmt);
    if (flow != Flow::kNext || execution_.failed()) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::Run(const Stmt& stmt) {
  const DepthGuard depth(execution_, &depth_);
  execution_.set_line(stmt.line);
  if (!depth.ok() || !execution_.Charge(1)) return Flow::kNext;
  switch (stmt.kind) {
    case StmtKind::kText:
      output_->Append(stmt.expr->value.string());
      break;
    case StmtKind::kPrint:
      AppendStr(execution_, Evaluate(*stmt.expr), output_);
      break;
    case StmtKind::kIf:
      return RunIf(stmt);
    case StmtKind::kFor:
      RunFor(stmt);
      break;
    case StmtKind::kSet:
      Assign(*stmt.target, Evaluate(*stmt.expr));
      break;
    case StmtKind::kSetBlock:
      RunSet(stmt);
      break;
    case StmtKind::kMacro:
      RunMacro(stmt);
      break;
    case StmtKind::kCallBlock:
      RunCallBlock(stmt);
      break;
    case StmtKind::kFilterBlock:
      RunFilterBlock(stmt);
      break;
    case StmtKind::kWith:
      RunWith(stmt);
      break;
    case StmtKind::kScope: {
      const ScopeGuard scope(*this);
      Run(stmt.bodies[0]);
      break;
    }
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::RunIf(const Stmt& stmt) {
  for (size_t i = 0; i < stmt.exprs.size(); ++i) {
    const bool chosen = Truthy(Evaluate(*stmt.exprs[i]));
    if (execution_.failed()) return Flow::kNext;
    if (chosen) return Run(stmt.bodies[i]);
  }
  const bool has_else = stmt.bodies.size() > stmt.exprs.size();
  return has_else ? Run(stmt.bodies.back()) : Flow::kNext;
}

void Interpreter::RunFor(const Stmt& stmt) { RunLoop(stmt, Evaluate(*stmt.expr), 0); }

std::vector<Value> Interpreter::LoopItems(const Stmt& stmt, const Value& iterable) {
  std::vector<Value> items = Elements(execution_, iterable);
  if (stmt.exprs[0] == nullptr) return items;
  std::vector<Value> kept;
  for (Value& item : items) {
    const ScopeGuard scope(*this);
    Assign(*stmt.target, item);
    const bool keep = Truthy(Evaluate(*stmt.exprs[0]));
    if (!execution_.Charge(1)) break;
    if (keep) kept.push_back(std::move(item));
  }
  return kept;
}

void Interpreter::RunLoop(const Stmt& stmt, const Value& iterable, int32_t depth0) {
  const auto loop = std::make_shared<Loop>();
  loop->items = LoopItems(stmt, iterable);
  loop->depth0 = depth0;
  const std::shared_ptr<Scope> outer = scope_;
  if (stmt.recursive) {
    loop->recurse = [this, &stmt, outer, depth0](Interpreter&, const Arguments& arguments) {
      if (arguments.positional.size() != 1) return Fail(execution_, "loop() takes one argument");
      const DepthGuard depth(execution_, &depth_);
      if (!depth.ok()) return Value();
      const ScopeGuard scope(*this, outer);
      OutputGuard output(*this);
      RunLoop(stmt, arguments.positional[0], depth0 + 1);
      return Value::String(output.Take());
    };
  }
  for (loop->index = 0; loop->index < loop->items.size(); ++loop->index) {
    if (!execution_.Charge(1)) return;
    const ScopeGuard scope(*this);
    if (loop_name_ != kNoName) scope_->Set(loop_name_, Value::Of(loop));
    Assign(*stmt.target, loop->items[loop->index]);
    if (Run(stmt.bodies[0]) == Flow::kBreak) return;
  }
  if (loop->items.empty() && !execution_.failed()) {
    const ScopeGuard scope(*this);
    Run(stmt.bodies[1]);
  }
}

void Interpreter::RunSet(const Stmt& stmt) {
  TrackedString text;
  {
    const ScopeGuard scope(*this);
    text = Capture(stmt.bodies[0]);
  }
  Value value = Value::String(std::move(text));
  if (stmt.expr) value = EvaluateFilter(*stmt.expr, &value);
  Assign(*stmt.target, value);
}

void Interpreter::RunFilterBlock(const Stmt& stmt) {
  TrackedString text;
  {
    const ScopeGuard scope(*this);
    text = Capture(stmt.bodies[0]);
  }
  const Value block = Value::String(std::move(text));
  AppendStr(execution_, EvaluateFilter(*stmt.expr, &block), output_);
}

void Interpreter::RunWith(const Stmt& stmt) {
  std::vector<Value> values;
  for (const ExprPtr& expr : stmt.exprs) values.push_back(Evaluate(*expr));
  const ScopeGuard scope(*this);
  for (size_t i = 0; i < values.size(); ++i) Assign(*stmt.targets[i], values[i]);
  Run(stmt.bodies[0]);
}

void Interpreter::Assign(const Expr& target, const Value& value) {
  if (!execution_.Charge(1)) return;
  if (target.kind == ExprKind::kName) return scope_->Set(target.name, value);
  if (target.kind == ExprKind::kNamespaceAttribute) return AssignNamespace(target, value);
  if (value.is_undefined()) {
    execution_.Fail(value.undefined_message());
    return;
  }
  const std::vector<Value> parts = Elements(execution_, value);
  if (execution_.failed()) return;
  if (parts.size() != target.children.size()) {
    execution_.Fail(
        fmt::format("cannot unpack {} values into {} names", parts.size(), target.children.size()));
    return;
  }
  for (size_t i = 0; i < parts.size(); ++i) Assign(*target.children[i], parts[i]);
}

void Interpreter::AssignNamespace(const Expr& target, const Value& value) {
  const Value object = EvaluateName(target);
  if (!object.is(Kind::kNamespace)) {
    execution_.Fail("cannot assign attribute on non-namespace object");
    return;
  }
  auto& attributes = object.ns().attributes;
  if (!execution_.Charge(static_cast<int64_t>(attributes.size() / 8))) return;
  const auto there = std::find_if(attributes.begin(), attributes.end(),
                                  [&](const auto& entry) { return entry.first == target.text; });
  if (there != attributes.end()) {
    there->second = value;
  } else {
    attributes.emplace_back(target.text, value);
  }
}

}  // namespace octavo::jinja
