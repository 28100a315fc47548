#pragma once

// Purpose:    the token stream under the parser, and the part that reads expressions.
// Ownership:  owns the tokens; borrows the name table.
// Threading:  one thread.
// Invariants: after the first error the current token is kEnd and every function returns soon; no
//             function returns null.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/ast.h"
#include "jinja/lexer.h"

namespace octavo::jinja {

class ExpressionParser {
 public:
  ExpressionParser(std::vector<Token> tokens, NameTable& names)
      : tokens_(std::move(tokens)), names_(names) {}

  bool failed() const { return !error_.empty(); }
  const std::string& error() const { return error_; }
  int32_t error_line() const { return error_line_; }

 protected:
  // Where a tuple without parentheses may end, and what its elements may be.
  struct TupleRules {
    bool targets_only = false;
    bool with_condition = true;
    bool in_parentheses = false;
    bool with_namespace = false;
    std::string_view end_name = {};
  };
  // Of the parser's functions: a parenthesis takes four.
  static constexpr int32_t kMaxNesting = 600;
  // Bounds the nesting while it lives.
  class Nesting {
   public:
    explicit Nesting(ExpressionParser& parser) : parser_(parser) {
      if (++parser_.nesting_ > kMaxNesting) parser_.Fail("nested too deep");
    }
    ~Nesting() { --parser_.nesting_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    ExpressionParser& parser_;
  };

  const Token& Current() const { return tokens_[at_]; }
  const Token& Next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  bool At(TokenType type) const { return Current().type == type; }
  bool AtOperator(std::string_view text) const {
    return At(TokenType::kOperator) && Current().text == text;
  }
  bool AtName(std::string_view text) const {
    return At(TokenType::kName) && Current().text == text;
  }
  void Advance() {
    if (at_ + 1 < tokens_.size()) ++at_;
  }
  bool SkipOperator(std::string_view text);
  bool SkipName(std::string_view text);
  void ExpectOperator(std::string_view text);
  void ExpectType(TokenType type, std::string_view what);
  std::string ExpectName();
  std::string Describe(const Token& token) const;
  void Fail(std::string_view message) { FailAt(Current().line, message); }
  void FailAt(int32_t line, std::string_view message);

  ExprPtr Make(ExprKind kind, int32_t line, std::vector<ExprPtr> children = {});
  template <typename... Children>
  ExprPtr MakeWith(ExprKind kind, int32_t line, Children... children) {
    std::vector<ExprPtr> list;
    (list.push_back(std::move(children)), ...);
    return Make(kind, line, std::move(list));
  }
  ExprPtr MakeName(const std::string& name, int32_t line);

  ExprPtr ParseExpression(bool with_condition = true);
  ExprPtr ParseTuple(const TupleRules& rules);
  ExprPtr ParseFilters(ExprPtr node, bool start_inline);
  ExprPtr ParsePrimary(bool with_namespace = false);

  NameTable& names() { return names_; }
  size_t position() const { return at_; }
  // Whether a token from `begin` to here is this name.
  bool MentionsName(size_t begin, std::string_view name) const;

 private:
  ExprPtr ParseCondition();
  ExprPtr ParseOr();
  ExprPtr ParseAnd();
  ExprPtr ParseNot();
  ExprPtr ParseCompare();
  ExprPtr ParseSum();
  ExprPtr ParseConcat();
  ExprPtr ParseProduct();
  ExprPtr ParsePower();
  ExprPtr ParseUnary(bool with_filter);
  ExprPtr ParseNameOrConstant(bool with_namespace);
  ExprPtr ParseStrings();
  ExprPtr ParseList();
  ExprPtr ParseDict();
  ExprPtr ParsePostfix(ExprPtr node);
  ExprPtr ParseFilterExpression(ExprPtr node);
  ExprPtr ParseSubscript(ExprPtr node);
  ExprPtr ParseSubscribed();
  ExprPtr ParseCall(ExprPtr node);
  void ParseArgument(Expr* call);
  void ParseArguments(Expr* call);
  ExprPtr ParseTest(ExprPtr node);
  bool IsTupleEnd(const TupleRules& rules) const;
  bool AtCompareOperator(Op* op) const;
  std::string ParseDottedName();

  std::vector<Token> tokens_;
  NameTable& names_;
  size_t at_ = 0;
  int32_t nesting_ = 0;
  std::string error_;
  int32_t error_line_ = 0;
};

}  // namespace octavo::jinja
