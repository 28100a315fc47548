#include "jinja/parser_base.h"

#include <fmt/format.h>

#include <algorithm>

namespace octavo::jinja {

NameId NameTable::Intern(const std::string& name) {
  const auto [place, is_new] = ids_.emplace(name, static_cast<NameId>(names_.size()));
  if (is_new) names_.push_back(name);
  return place->second;
}

NameId NameTable::Find(const std::string& name) const {
  const auto found = ids_.find(name);
  return found == ids_.end() ? kNoName : found->second;
}

void ExpressionParser::FailAt(int32_t line, std::string_view message) {
  if (failed()) return;
  error_ = message;
  error_line_ = line;
  at_ = tokens_.size() - 1;
}

std::string ExpressionParser::Describe(const Token& token) const {
  switch (token.type) {
    case TokenType::kData:
      return "template text";
    case TokenType::kVariableBegin:
      return "'{{'";
    case TokenType::kVariableEnd:
      return "'}}'";
    case TokenType::kBlockBegin:
      return "'{%'";
    case TokenType::kBlockEnd:
      return "'%}'";
    case TokenType::kString:
      return "a string";
    case TokenType::kEnd:
      return "the end of the template";
    default:
      return "'" + token.text + "'";
  }
}

bool ExpressionParser::MentionsName(size_t begin, std::string_view name) const {
  for (size_t i = begin; i < at_; ++i) {
    if (tokens_[i].type == TokenType::kName && tokens_[i].text == name) return true;
  }
  return false;
}

bool ExpressionParser::SkipOperator(std::string_view text) {
  if (!AtOperator(text)) return false;
  Advance();
  return true;
}

bool ExpressionParser::SkipName(std::string_view text) {
  if (!AtName(text)) return false;
  Advance();
  return true;
}

void ExpressionParser::ExpectOperator(std::string_view text) {
  if (!SkipOperator(text)) Fail(fmt::format("expected '{}', got {}", text, Describe(Current())));
}

void ExpressionParser::ExpectType(TokenType type, std::string_view what) {
  if (!At(type)) return Fail(fmt::format("expected {}, got {}", what, Describe(Current())));
  Advance();
}

std::string ExpressionParser::ExpectName() {
  if (!At(TokenType::kName)) {
    Fail(fmt::format("expected a name, got {}", Describe(Current())));
    return "";
  }
  std::string name = Current().text;
  Advance();
  return name;
}

ExprPtr ExpressionParser::Make(ExprKind kind, int32_t line, std::vector<ExprPtr> children) {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = line;
  for (const ExprPtr& child : children) {
    if (child) node->depth = std::max(node->depth, child->depth + 1);
  }
  node->children = std::move(children);
  if (node->depth > kMaxTreeDepth) FailAt(line, "an expression nested too deep, or too long");
  return node;
}

ExprPtr ExpressionParser::MakeName(const std::string& name, int32_t line) {
  ExprPtr node = Make(ExprKind::kName, line);
  node->name = names_.Intern(name);
  return node;
}

ExprPtr ExpressionParser::ParseExpression(bool with_condition) {
  const Nesting nesting(*this);
  if (failed()) return Make(ExprKind::kConst, Current().line);
  return with_condition ? ParseCondition() : ParseOr();
}

bool ExpressionParser::IsTupleEnd(const TupleRules& rules) const {
  if (At(TokenType::kVariableEnd) || At(TokenType::kBlockEnd) || AtOperator(")")) return true;
  return !rules.end_name.empty() && AtName(rules.end_name);
}

ExprPtr ExpressionParser::ParseTuple(const TupleRules& rules) {
  const Nesting nesting(*this);
  const int32_t line = Current().line;
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  while (!failed()) {
    if (!items.empty()) ExpectOperator(",");
    if (failed() || IsTupleEnd(rules)) break;
    items.push_back(rules.targets_only ? ParsePrimary(rules.with_namespace)
                                       : ParseExpression(rules.with_condition));
    if (!AtOperator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items[0]);
  if (!is_tuple && !rules.in_parentheses) {
    Fail("expected an expression, got " + Describe(Current()));
  }
  return Make(ExprKind::kTuple, line, std::move(items));
}

ExprPtr ExpressionParser::ParsePrimary(bool with_namespace) {
  const Nesting nesting(*this);
  const int32_t line = Current().line;
  if (At(TokenType::kName)) return ParseNameOrConstant(with_namespace);
  if (At(TokenType::kString)) return ParseStrings();
  ExprPtr node = Make(ExprKind::kConst, line);
  if (At(TokenType::kInteger) || At(TokenType::kFloat)) {
    node->value =
        At(TokenType::kInteger) ? Value::Int(Current().integer) : Value::Float(Current().number);
    Advance();
  } else if (SkipOperator("(")) {
    node = ParseTuple({.in_parentheses = true});
    ExpectOperator(")");
  } else if (AtOperator("[")) {
    node = ParseList();
  } else if (AtOperator("{")) {
    node = ParseDict();
  } else {
    Fail("unexpected " + Describe(Current()));
  }
  return node;
}

ExprPtr ExpressionParser::ParseNameOrConstant(bool with_namespace) {
  const int32_t line = Current().line;
  const std::string name = ExpectName();
  ExprPtr node = Make(ExprKind::kConst, line);
  if (name == "true" || name == "True") {
    node->value = Value::Bool(true);
  } else if (name == "false" || name == "False") {
    node->value = Value::Bool(false);
  } else if (name == "none" || name == "None") {
    node->value = Value::None();
  } else if (with_namespace && SkipOperator(".")) {
    node = MakeName(name, line);
    node->kind = ExprKind::kNamespaceAttribute;
    node->text = ExpectName();
  } else {
    node = MakeName(name, line);
  }
  return node;
}

ExprPtr ExpressionParser::ParseStrings() {
  ExprPtr node = Make(ExprKind::kConst, Current().line);
  std::string text;
  for (; At(TokenType::kString); Advance()) text += Current().text;
  node->value = Value::String(TrackedString::Trusted(std::move(text)));
  return node;
}

ExprPtr ExpressionParser::ParseList() {
  const int32_t line = Current().line;
  ExpectOperator("[");
  std::vector<ExprPtr> items;
  while (!failed() && !AtOperator("]")) {
    if (!items.empty()) ExpectOperator(",");
    if (AtOperator("]")) break;
    items.push_back(ParseExpression());
  }
  ExpectOperator("]");
  return Make(ExprKind::kList, line, std::move(items));
}

ExprPtr ExpressionParser::ParseDict() {
  const int32_t line = Current().line;
  ExpectOperator("{");
  std::vector<ExprPtr> items;
  while (!failed() && !AtOperator("}")) {
    if (!items.empty()) ExpectOperator(",");
    if (AtOperator("}")) break;
    items.push_back(ParseExpression());
    ExpectOperator(":");
    items.push_back(ParseExpression());
  }
  ExpectOperator("}");
  return Make(ExprKind::kDict, line, std::move(items));
}

}  // namespace octavo::jinja
