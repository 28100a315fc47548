#include "jinja/content_format.h"

#include <set>

namespace octavo::jinja {
namespace {

// All assignments and loops of a template.
struct Statements {
  std::vector<const Stmt*> sets;
  std::vector<const Stmt*> loops;
};

void Collect(const Body& body, Statements* statements) {
  for (const auto& stmt : body) {
    if (stmt->kind == StmtKind::kSet) statements->sets.push_back(stmt.get());
    if (stmt->kind == StmtKind::kFor) statements->loops.push_back(stmt.get());
    for (const Body& inner : stmt->bodies) Collect(inner, statements);
  }
}

// What is behind filters, tests and slices.
const Expr& Inside(const Expr& expr) {
  const Expr* inside = &expr;
  while (true) {
    const bool is_wrapped = inside->kind == ExprKind::kFilter || inside->kind == ExprKind::kTest;
    const bool is_slice =
        inside->kind == ExprKind::kItem && inside->children[1]->kind == ExprKind::kSlice;
    if ((!is_wrapped && !is_slice) || !inside->children[0]) return *inside;
    inside = inside->children[0].get();
  }
}

bool IsVariable(const Expr& expr, const std::set<NameId>& names) {
  const Expr& inside = Inside(expr);
  return inside.kind == ExprKind::kName && names.contains(inside.name);
}

bool IsContentOf(const Expr& expr, const std::set<NameId>& messages) {
  const Expr& inside = Inside(expr);
  const bool is_attribute = inside.kind == ExprKind::kAttribute && inside.text == "content";
  const bool is_item =
      inside.kind == ExprKind::kItem && inside.children[1]->kind == ExprKind::kConst &&
      inside.children[1]->value.is_string() && inside.children[1]->value.bytes() == "content";
  if (!is_attribute && !is_item) return false;
  const Expr& object = *inside.children[0];
  return object.kind == ExprKind::kName && messages.contains(object.name);
}

}  // namespace

bool IteratesContent(const Program& program) {
  Statements statements;
  Collect(program.body, &statements);
  std::set<NameId> lists = {program.names.Find("messages")};
  for (bool grown = true; grown;) {
    grown = false;
    for (const Stmt* set : statements.sets) {
      if (set->target->kind != ExprKind::kName || !IsVariable(*set->expr, lists)) continue;
      grown = lists.insert(set->target->name).second || grown;
    }
  }
  std::set<NameId> messages;
  for (const Stmt* loop : statements.loops) {
    if (loop->target->kind == ExprKind::kName && IsVariable(*loop->expr, lists)) {
      messages.insert(loop->target->name);
    }
  }
  for (const Stmt* loop : statements.loops) {
    if (IsContentOf(*loop->expr, messages)) return true;
  }
  return false;
}

}  // namespace octavo::jinja
