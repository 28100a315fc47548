#include "jinja/validator.h"

#include "jinja/functions.h"

namespace octavo::jinja {
namespace {

class Validator {
 public:
  explicit Validator(const NameTable& names) : names_(names) {}
  void Visit(const Body& body, bool in_condition) {
    for (const auto& stmt : body) Visit(*stmt, in_condition);
  }
  std::optional<Problem> problem;

 private:
  void Visit(const Stmt& stmt, bool in_condition) {
    const bool is_if = stmt.kind == StmtKind::kIf;
    const bool inside =
        is_if || (in_condition && (stmt.kind == StmtKind::kSet || stmt.kind == StmtKind::kPrint));
    Visit(stmt.expr.get(), inside);
    for (const ExprPtr& expr : stmt.exprs) Visit(expr.get(), inside);
    if (stmt.signature) {
      for (const ExprPtr& value : stmt.signature->defaults) Visit(value.get(), false);
    }
    for (const Body& body : stmt.bodies) Visit(body, is_if);
  }

  void Visit(const Expr* expr, bool in_condition) {
    if (expr == nullptr) return;
    const bool is_filter = expr->kind == ExprKind::kFilter;
    if (!in_condition &&
        (is_filter ? FindFilter(expr->text) == nullptr
                   : expr->kind == ExprKind::kTest && FindTest(expr->text) == nullptr)) {
      Report(*expr, std::string("No ") + (is_filter ? "filter" : "test") + " named '" + expr->text +
                        "' (unknown, or not supported)");
    }
    if (expr->kind == ExprKind::kCall && expr->children[0]->kind == ExprKind::kName) {
      const std::string& name = names_[expr->children[0]->name];
      if (name == "cycler" || name == "joiner" || name == "lipsum") {
        Report(*expr, "'" + name + "' is not supported");
      }
    }
    const bool inside = in_condition || expr->kind == ExprKind::kCond;
    for (const ExprPtr& child : expr->children) Visit(child.get(), inside);
    for (const ExprPtr& value : expr->arguments.positional) Visit(value.get(), inside);
    for (const auto& [name, value] : expr->arguments.named) Visit(value.get(), inside);
    Visit(expr->arguments.star.get(), inside);
    Visit(expr->arguments.star_star.get(), inside);
  }

  void Report(const Expr& expr, std::string message) {
    if (!problem) problem = Problem{expr.line, std::move(message)};
  }

  const NameTable& names_;
};

}  // namespace

std::optional<Problem> FindProblem(const Program& program) {
  Validator validator(program.names);
  validator.Visit(program.body, false);
  return validator.problem;
}

}  // namespace octavo::jinja
