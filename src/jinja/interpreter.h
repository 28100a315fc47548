#pragma once

// Purpose:    runs a Program over the variables of one rendering.
// Ownership:  borrows the Program and the Execution; owns the scopes.
// Threading:  one thread.
// Invariants: scopes are Jinja2's: loops, macros, blocks of call, filter, set and with have their
//             own, `if` has none; what a loop's body sets is gone after each round. Bounded by the
//             Execution in steps and in depth.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/ast.h"
#include "jinja/functions.h"
#include "jinja/value.h"

namespace octavo::jinja {

// What strftime_now gives for a format; nothing for a format that is not known.
using FormatTime = std::function<std::optional<std::string>(std::string_view format)>;

struct Scope {
  std::vector<std::pair<NameId, Value>> variables;
  std::shared_ptr<Scope> parent;

  const Value* Find(NameId name) const;
  void Set(NameId name, Value value);
};

class Interpreter {
 public:
  Interpreter(Execution& execution, const Program& program, FormatTime format_time);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // A variable that the template never names is dropped.
  void SetVariable(const std::string& name, Value value);
  TrackedString Render();

  Execution& execution() { return execution_; }
  const FormatTime& format_time() const { return format_time_; }

  Value Call(const Value& callee, const Arguments& arguments);
  Value GetAttribute(const Value& object, std::string_view name);
  Value GetItem(const Value& object, const Value& key);
  Value ApplyFilter(std::string_view name, const Value& input, const Arguments& arguments);
  bool ApplyTest(std::string_view name, const Value& input, const Arguments& arguments);
  Value MakeNamespace();

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue };
  class ScopeGuard;
  class OutputGuard;

  // Statements.
  Flow Run(const Body& body);
  Flow Run(const Stmt& stmt);
  Flow RunIf(const Stmt& stmt);
  void RunFor(const Stmt& stmt);
  void RunLoop(const Stmt& stmt, const Value& iterable, int32_t depth0);
  std::vector<Value> LoopItems(const Stmt& stmt, const Value& iterable);
  void RunSet(const Stmt& stmt);
  void RunMacro(const Stmt& stmt);
  void RunCallBlock(const Stmt& stmt);
  void RunFilterBlock(const Stmt& stmt);
  void RunWith(const Stmt& stmt);
  TrackedString Capture(const Body& body);
  void Assign(const Expr& target, const Value& value);
  void AssignNamespace(const Expr& target, const Value& value);
  Value MakeMacro(const Stmt& stmt);
  Value CallMacro(const Stmt& stmt, const std::shared_ptr<Scope>& closure,
                  const Arguments& arguments);
  bool BindParameters(const Signature& signature, const Arguments& arguments);

  // Expressions.
  Value Evaluate(const Expr& expr);
  Value EvaluateNode(const Expr& expr);
  Value EvaluateName(const Expr& expr);
  Value EvaluateItems(const Expr& expr);
  Value EvaluateDict(const Expr& expr);
  Value EvaluateCondition(const Expr& expr);
  Value EvaluateCompare(const Expr& expr);
  Value EvaluateConcat(const Expr& expr);
  Value EvaluateItem(const Expr& expr);
  Value EvaluateCall(const Expr& expr, const Value* caller = nullptr);
  Value EvaluateFilter(const Expr& expr, const Value* block);
  Value EvaluateTest(const Expr& expr);
  Arguments EvaluateArguments(const CallArguments& arguments);
  Value GetLoopAttribute(const std::shared_ptr<Loop>& loop, std::string_view name);
  Value GetMethod(const Value& object, std::string_view name, bool* found);

  Execution& execution_;
  const Program& program_;
  FormatTime format_time_;
  NameId loop_name_;
  std::shared_ptr<Scope> scope_;
  StringBuilder* output_ = nullptr;
  int32_t depth_ = 0;
  // What can be part of a cycle; emptied at the end.
  std::vector<std::shared_ptr<Scope>> captured_scopes_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
};

}  // namespace octavo::jinja
