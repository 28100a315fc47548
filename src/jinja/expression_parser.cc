#include <fmt/format.h>

#include "jinja/parser_base.h"

namespace octavo::jinja {

ExprPtr ExpressionParser::ParseCondition() {
  const int32_t line = Current().line;
  ExprPtr node = ParseOr();
  while (!failed() && SkipName("if")) {
    ExprPtr condition = ParseOr();
    ExprPtr other;
    if (SkipName("else")) {
      const Nesting nesting(*this);
      if (!failed()) other = ParseCondition();
    }
    node = MakeWith(ExprKind::kCond, line, std::move(condition), std::move(node), std::move(other));
  }
  return node;
}

ExprPtr ExpressionParser::ParseOr() {
  const int32_t line = Current().line;
  ExprPtr left = ParseAnd();
  while (!failed() && SkipName("or")) {
    left = MakeWith(ExprKind::kOr, line, std::move(left), ParseAnd());
  }
  return left;
}

ExprPtr ExpressionParser::ParseAnd() {
  const int32_t line = Current().line;
  ExprPtr left = ParseNot();
  while (!failed() && SkipName("and")) {
    left = MakeWith(ExprKind::kAnd, line, std::move(left), ParseNot());
  }
  return left;
}

ExprPtr ExpressionParser::ParseNot() {
  if (!AtName("not")) return ParseCompare();
  const Nesting nesting(*this);
  const int32_t line = Current().line;
  Advance();
  if (failed()) return Make(ExprKind::kConst, line);
  return MakeWith(ExprKind::kNot, line, ParseNot());
}

bool ExpressionParser::AtCompareOperator(Op* op) const {
  constexpr std::pair<std::string_view, Op> kOps[] = {
      {"==", Op::kEqual},     {"!=", Op::kNotEqual}, {"<", Op::kLess},
      {"<=", Op::kLessEqual}, {">", Op::kGreater},   {">=", Op::kGreaterEqual}};
  for (const auto& [text, value] : kOps) {
    if (!AtOperator(text)) continue;
    *op = value;
    return true;
  }
  return false;
}

ExprPtr ExpressionParser::ParseCompare() {
  const int32_t line = Current().line;
  std::vector<ExprPtr> operands;
  operands.push_back(ParseSum());
  std::vector<Op> ops;
  while (!failed()) {
    Op op = Op::kIn;
    if (AtCompareOperator(&op) || AtName("in")) {
      Advance();
    } else if (AtName("not") && Next().type == TokenType::kName && Next().text == "in") {
      op = Op::kNotIn;
      Advance();
      Advance();
    } else {
      break;
    }
    ops.push_back(op);
    operands.push_back(ParseSum());
  }
  if (ops.empty()) return std::move(operands[0]);
  ExprPtr node = Make(ExprKind::kCompare, line, std::move(operands));
  node->ops = std::move(ops);
  return node;
}

ExprPtr ExpressionParser::ParseSum() {
  const int32_t line = Current().line;
  ExprPtr left = ParseConcat();
  while (!failed() && (AtOperator("+") || AtOperator("-"))) {
    const Op op = AtOperator("+") ? Op::kAdd : Op::kSubtract;
    Advance();
    left = MakeWith(ExprKind::kBinary, line, std::move(left), ParseConcat());
    left->ops = {op};
  }
  return left;
}

ExprPtr ExpressionParser::ParseConcat() {
  const int32_t line = Current().line;
  std::vector<ExprPtr> parts;
  parts.push_back(ParseProduct());
  while (!failed() && SkipOperator("~")) parts.push_back(ParseProduct());
  if (parts.size() == 1) return std::move(parts[0]);
  return Make(ExprKind::kConcat, line, std::move(parts));
}

ExprPtr ExpressionParser::ParseProduct() {
  constexpr std::pair<std::string_view, Op> kOps[] = {
      {"*", Op::kMultiply}, {"/", Op::kDivide}, {"//", Op::kFloorDivide}, {"%", Op::kModulo}};
  const int32_t line = Current().line;
  ExprPtr left = ParsePower();
  for (bool more = true; more && !failed();) {
    more = false;
    for (const auto& [text, op] : kOps) {
      if (!SkipOperator(text)) continue;
      left = MakeWith(ExprKind::kBinary, line, std::move(left), ParsePower());
      left->ops = {op};
      more = true;
    }
  }
  return left;
}

ExprPtr ExpressionParser::ParsePower() {
  const int32_t line = Current().line;
  ExprPtr left = ParseUnary(true);
  while (!failed() && SkipOperator("**")) {
    left = MakeWith(ExprKind::kBinary, line, std::move(left), ParseUnary(true));
    left->ops = {Op::kPower};
  }
  return left;
}

ExprPtr ExpressionParser::ParseUnary(bool with_filter) {
  const Nesting nesting(*this);
  const int32_t line = Current().line;
  ExprPtr node;
  if (failed()) {
    node = Make(ExprKind::kConst, line);
  } else if (SkipOperator("-")) {
    node = MakeWith(ExprKind::kNegative, line, ParseUnary(false));
  } else if (SkipOperator("+")) {
    node = MakeWith(ExprKind::kPositive, line, ParseUnary(false));
  } else {
    node = ParsePrimary();
  }
  node = ParsePostfix(std::move(node));
  return with_filter ? ParseFilterExpression(std::move(node)) : std::move(node);
}

ExprPtr ExpressionParser::ParsePostfix(ExprPtr node) {
  while (!failed()) {
    if (AtOperator(".") || AtOperator("[")) {
      node = ParseSubscript(std::move(node));
    } else if (AtOperator("(")) {
      node = ParseCall(std::move(node));
    } else {
      break;
    }
  }
  return node;
}

ExprPtr ExpressionParser::ParseFilterExpression(ExprPtr node) {
  while (!failed()) {
    if (AtOperator("|")) {
      node = ParseFilters(std::move(node), false);
    } else if (AtName("is")) {
      node = ParseTest(std::move(node));
    } else if (AtOperator("(")) {
      node = ParseCall(std::move(node));
    } else {
      break;
    }
  }
  return node;
}

ExprPtr ExpressionParser::ParseSubscript(ExprPtr node) {
  const int32_t line = Current().line;
  if (SkipOperator(".")) {
    if (At(TokenType::kInteger)) {
      ExprPtr index = ParsePrimary();
      return MakeWith(ExprKind::kItem, line, std::move(node), std::move(index));
    }
    ExprPtr attribute = MakeWith(ExprKind::kAttribute, line, std::move(node));
    attribute->text = ExpectName();
    return attribute;
  }
  ExpectOperator("[");
  std::vector<ExprPtr> indices;
  while (!failed() && !AtOperator("]")) {
    if (!indices.empty()) ExpectOperator(",");
    indices.push_back(ParseSubscribed());
  }
  ExpectOperator("]");
  ExprPtr index = indices.size() == 1 ? std::move(indices[0])
                                      : Make(ExprKind::kTuple, line, std::move(indices));
  for (const ExprPtr& part : index->children) {
    if (index->kind == ExprKind::kTuple && part && part->kind == ExprKind::kSlice) {
      FailAt(line, "a slice inside a tuple is not supported");
    }
  }
  return MakeWith(ExprKind::kItem, line, std::move(node), std::move(index));
}

ExprPtr ExpressionParser::ParseSubscribed() {
  const int32_t line = Current().line;
  ExprPtr start, stop, step;
  if (!SkipOperator(":")) {
    start = ParseExpression();
    if (!SkipOperator(":")) return start;
  }
  const auto at_end = [this] { return AtOperator("]") || AtOperator(","); };
  if (!AtOperator(":") && !at_end()) stop = ParseExpression();
  if (SkipOperator(":") && !at_end()) step = ParseExpression();
  return MakeWith(ExprKind::kSlice, line, std::move(start), std::move(stop), std::move(step));
}

ExprPtr ExpressionParser::ParseCall(ExprPtr node) {
  ExprPtr call = MakeWith(ExprKind::kCall, Current().line, std::move(node));
  ParseArguments(call.get());
  return call;
}

void ExpressionParser::ParseArguments(Expr* call) {
  ExpectOperator("(");
  bool require_comma = false;
  while (!failed() && !AtOperator(")")) {
    if (require_comma) {
      ExpectOperator(",");
      if (AtOperator(")")) break;
    }
    ParseArgument(call);
    require_comma = true;
  }
  ExpectOperator(")");
  if (call->depth > kMaxTreeDepth) Fail("an expression nested too deep");
}

void ExpressionParser::ParseArgument(Expr* call) {
  CallArguments& arguments = call->arguments;
  const auto keep = [call](ExprPtr value) {
    call->depth = std::max(call->depth, value->depth + 1);
    return value;
  };
  bool in_order = !arguments.star_star;
  if (SkipOperator("*")) {
    in_order = in_order && !arguments.star;
    arguments.star = keep(ParseExpression());
  } else if (SkipOperator("**")) {
    arguments.star_star = keep(ParseExpression());
  } else if (At(TokenType::kName) && Next().type == TokenType::kOperator && Next().text == "=") {
    std::string name = ExpectName();
    Advance();
    arguments.named.emplace_back(std::move(name), keep(ParseExpression()));
  } else {
    in_order = in_order && !arguments.star && arguments.named.empty();
    arguments.positional.push_back(keep(ParseExpression()));
  }
  if (!in_order) FailAt(call->line, "invalid syntax for function call expression");
}

std::string ExpressionParser::ParseDottedName() {
  std::string name = ExpectName();
  while (!failed() && SkipOperator(".")) name += "." + ExpectName();
  return name;
}

ExprPtr ExpressionParser::ParseFilters(ExprPtr node, bool start_inline) {
  while (!failed() && (start_inline || AtOperator("|"))) {
    if (!start_inline) Advance();
    start_inline = false;
    const int32_t line = Current().line;
    std::string name = ParseDottedName();
    node = MakeWith(ExprKind::kFilter, line, std::move(node));
    node->text = std::move(name);
    if (AtOperator("(")) ParseArguments(node.get());
  }
  return node;
}

ExprPtr ExpressionParser::ParseTest(ExprPtr node) {
  const int32_t line = Current().line;
  Advance();  // is
  const bool negated = SkipName("not");
  ExprPtr test = MakeWith(ExprKind::kTest, line, std::move(node));
  test->text = ParseDottedName();
  const bool at_value = At(TokenType::kName) || At(TokenType::kString) || At(TokenType::kInteger) ||
                        At(TokenType::kFloat) || AtOperator("[") || AtOperator("{");
  if (AtOperator("(")) {
    ParseArguments(test.get());
  } else if (AtName("is")) {
    Fail("You cannot chain multiple tests with is");
  } else if (at_value && !AtName("else") && !AtName("or") && !AtName("and")) {
    ExprPtr argument = ParsePostfix(ParsePrimary());
    test->depth = std::max(test->depth, argument->depth + 1);
    test->arguments.positional.push_back(std::move(argument));
  }
  return negated ? MakeWith(ExprKind::kNot, line, std::move(test)) : std::move(test);
}

}  // namespace octavo::jinja
