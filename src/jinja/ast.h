#pragma once

// Purpose:    a parsed template: expressions and statements.
// Ownership:  each node owns its children; constants share their strings.
// Threading:  immutable after parsing; any thread.
// Invariants: no tree is deeper than kMaxTreeDepth, so that walking and destroying one is bounded
//             in stack. Variables are numbered; NameTable has their spellings.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jinja/value.h"

namespace octavo::jinja {

inline constexpr int32_t kMaxTreeDepth = 200;

using NameId = int32_t;
inline constexpr NameId kNoName = -1;

enum class ExprKind : uint8_t {
  kConst,
  kName,
  kTuple,
  kList,
  kDict,  // children: key, value, key, value ...
  kCond,  // children: condition, value, other value (may be null)
  kAnd,
  kOr,
  kNot,
  kCompare,  // children: the operands; ops: between them
  kBinary,   // ops[0]
  kConcat,
  kNegative,
  kPositive,
  kAttribute,  // children[0], text
  kItem,       // children[0], index children[1]
  kSlice,      // children: start, stop, step; each may be null; only as the index of a kItem
  kCall,       // children[0], arguments
  kFilter,     // children[0] (null in a block's filter), text, arguments
  kTest,       // children[0], text, arguments
  kNamespaceAttribute,  // a target only: name, text
};

enum class Op : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star;       // *args; may be null
  ExprPtr star_star;  // **kwargs; may be null
};

struct Expr {
  ExprKind kind = ExprKind::kConst;
  int32_t line = 1;
  int32_t depth = 1;
  NameId name = kNoName;
  Value value;
  std::string text;
  std::vector<Op> ops;
  std::vector<ExprPtr> children;
  CallArguments arguments;
};

enum class StmtKind : uint8_t {
  kText,         // expr: a constant
  kPrint,        // expr
  kIf,           // exprs: the conditions; bodies: one for each, and the else's if there is one
  kFor,          // target, expr, exprs[0] = the filter or null; bodies: loop, else
  kSet,          // target, expr
  kSetBlock,     // target, expr = the filter or null; bodies[0]
  kMacro,        // signature; bodies[0]
  kCallBlock,    // signature of the caller; expr = the call; bodies[0]
  kFilterBlock,  // expr = the filter; bodies[0]
  kWith,         // targets, exprs = their values; bodies[0]
  kScope,        // the generation tag: bodies[0]
  kBreak,
  kContinue,
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;

struct Signature {
  std::string name;
  NameId name_id = kNoName;
  std::vector<NameId> parameters;
  std::vector<std::string> parameter_names;
  std::vector<ExprPtr> defaults;  // of the last parameters
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
};

struct Stmt {
  StmtKind kind = StmtKind::kText;
  int32_t line = 1;
  ExprPtr target;
  ExprPtr expr;
  std::vector<ExprPtr> targets;
  std::vector<ExprPtr> exprs;
  std::vector<Body> bodies;
  std::unique_ptr<Signature> signature;
  bool recursive = false;  // kFor
};

class NameTable {
 public:
  NameId Intern(const std::string& name);
  NameId Find(const std::string& name) const;  // kNoName if the template never says it
  const std::string& operator[](NameId id) const { return names_[static_cast<size_t>(id)]; }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, NameId> ids_;
};

struct Program {
  NameTable names;
  Body body;
};

}  // namespace octavo::jinja
