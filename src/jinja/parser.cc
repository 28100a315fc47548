#include "jinja/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "jinja/parser_base.h"
#include "jinja/validator.h"

namespace octavo::jinja {
namespace {

using Names = std::initializer_list<std::string_view>;

class StatementParser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Body ParseTemplate() { return ParseBody({}); }

 private:
  using StmtPtr = std::unique_ptr<Stmt>;

  static StmtPtr MakeStmt(StmtKind kind, int32_t line) {
    auto stmt = std::make_unique<Stmt>();
    stmt->kind = kind;
    stmt->line = line;
    return stmt;
  }

  bool AtAnyName(Names names) const {
    return std::any_of(names.begin(), names.end(),
                       [this](std::string_view name) { return AtName(name); });
  }

  // Up to one of `ends`, which becomes the current token; without ends up to the template's end.
  Body ParseBody(Names ends) {
    Body body;
    const int32_t begin_line = Current().line;
    while (!failed() && !At(TokenType::kEnd)) {
      const int32_t line = Current().line;
      if (At(TokenType::kData)) {
        StmtPtr text = MakeStmt(StmtKind::kText, line);
        text->expr = Make(ExprKind::kConst, line);
        text->expr->value = Value::String(TrackedString::Trusted(Current().text));
        body.push_back(std::move(text));
        Advance();
      } else if (At(TokenType::kVariableBegin)) {
        Advance();
        StmtPtr print = MakeStmt(StmtKind::kPrint, line);
        print->expr = ParseTuple({});
        ExpectType(TokenType::kVariableEnd, "'}}'");
        body.push_back(std::move(print));
      } else {
        ExpectType(TokenType::kBlockBegin, "a tag");
        if (AtAnyName(ends)) return body;
        ParseStatement(&body);
        ExpectType(TokenType::kBlockEnd, "'%}'");
      }
    }
    if (ends.size() > 0) {
      FailAt(begin_line, fmt::format("'{}' is missing for the tag before", *(ends.end() - 1)));
    }
    return body;
  }

  // A tag's body, from its "%}" to the end tag, whose name is left as the current token.
  Body ParseTagBody(Names ends) {
    const Nesting nesting(*this);
    SkipOperator(":");
    ExpectType(TokenType::kBlockEnd, "'%}'");
    return ParseBody(ends);
  }
  Body ParseWholeBody(std::string_view end) {
    Body body = ParseTagBody({end});
    Advance();
    return body;
  }

  void ParseStatement(Body* body) {
    using Parse = StmtPtr (StatementParser::*)();
    constexpr std::array<std::pair<std::string_view, Parse>, 10> kTags = {{
        {"if", &StatementParser::ParseIf},
        {"for", &StatementParser::ParseFor},
        {"set", &StatementParser::ParseSet},
        {"macro", &StatementParser::ParseMacro},
        {"call", &StatementParser::ParseCallBlock},
        {"filter", &StatementParser::ParseFilterBlock},
        {"with", &StatementParser::ParseWith},
        {"generation", &StatementParser::ParseGeneration},
        {"break", &StatementParser::ParseBreak},
        {"continue", &StatementParser::ParseContinue},
    }};
    if (AtName("print")) return ParsePrint(body);
    for (const auto& [name, parse] : kTags) {
      if (!AtName(name)) continue;
      body->push_back((this->*parse)());
      return;
    }
    const bool is_name = At(TokenType::kName);
    Fail(is_name ? fmt::format("the tag '{}' is unknown here, or not supported", Current().text)
                 : "a tag's name is missing");
  }

  void ParsePrint(Body* body) {
    const int32_t line = Current().line;
    Advance();
    for (bool first = true; !failed() && !At(TokenType::kBlockEnd); first = false) {
      if (!first) ExpectOperator(",");
      StmtPtr print = MakeStmt(StmtKind::kPrint, line);
      print->expr = ParseExpression();
      body->push_back(std::move(print));
    }
  }

  StmtPtr ParseIf() {
    StmtPtr stmt = MakeStmt(StmtKind::kIf, Current().line);
    do {
      Advance();  // if, elif
      stmt->exprs.push_back(ParseTuple({.with_condition = false}));
      stmt->bodies.push_back(ParseTagBody({"elif", "else", "endif"}));
    } while (!failed() && AtName("elif"));
    if (SkipName("else")) {
      stmt->bodies.push_back(ParseWholeBody("endif"));
    } else {
      Advance();
    }
    return stmt;
  }

  StmtPtr ParseFor() {
    StmtPtr stmt = MakeStmt(StmtKind::kFor, Current().line);
    Advance();
    stmt->target = ParseTarget({.targets_only = true, .end_name = "in"});
    if (!SkipName("in")) Fail("expected 'in'");
    stmt->expr = ParseTuple({.with_condition = false, .end_name = "recursive"});
    stmt->exprs.push_back(SkipName("if") ? ParseExpression() : nullptr);
    stmt->recursive = SkipName("recursive");
    const bool was_in_loop = std::exchange(in_loop_, true);
    stmt->bodies.push_back(ParseTagBody({"else", "endfor"}));
    in_loop_ = was_in_loop;
    stmt->bodies.push_back(SkipName("else") ? ParseWholeBody("endfor") : Body());
    if (AtName("endfor")) Advance();
    return stmt;
  }

  // A name, or names in a tuple; with_namespace: name.attribute too.
  ExprPtr ParseTarget(TupleRules rules) {
    rules.targets_only = true;
    ExprPtr target = ParseTuple(rules);
    if (!failed()) CheckTarget(*target);
    return target;
  }
  void CheckTarget(const Expr& target) {
    if (target.kind == ExprKind::kTuple) {
      for (const ExprPtr& part : target.children) CheckTarget(*part);
    } else if (target.kind != ExprKind::kName && target.kind != ExprKind::kNamespaceAttribute) {
      FailAt(target.line, "can't assign to this expression");
    }
  }

  StmtPtr ParseSet() {
    StmtPtr stmt = MakeStmt(StmtKind::kSet, Current().line);
    Advance();
    stmt->target = ParseTarget({.with_namespace = true});
    if (SkipOperator("=")) {
      stmt->expr = ParseTuple({});
      return stmt;
    }
    stmt->kind = StmtKind::kSetBlock;
    if (AtOperator("|")) stmt->expr = ParseFilters(nullptr, false);
    stmt->bodies.push_back(ParseWholeBody("endset"));
    return stmt;
  }

  void ParseSignature(Signature* signature) {
    ExpectOperator("(");
    while (!failed() && !AtOperator(")")) {
      if (!signature->parameters.empty()) ExpectOperator(",");
      const std::string name = ExpectName();
      signature->parameters.push_back(names().Intern(name));
      signature->parameter_names.push_back(name);
      if (SkipOperator("=")) {
        signature->defaults.push_back(ParseExpression());
      } else if (!signature->defaults.empty()) {
        Fail("non-default argument follows default argument");
      }
    }
    ExpectOperator(")");
  }

  // A macro's body; what it says of caller, varargs and kwargs is noted in the signature.
  void ParseMacroBody(Stmt* stmt, std::string_view end) {
    const size_t begin = position();
    const bool was_in_loop = std::exchange(in_loop_, false);
    stmt->bodies.push_back(ParseWholeBody(end));
    in_loop_ = was_in_loop;
    if (failed()) return;
    stmt->signature->uses_caller = MentionsName(begin, "caller");
    stmt->signature->uses_varargs = MentionsName(begin, "varargs");
    stmt->signature->uses_kwargs = MentionsName(begin, "kwargs");
  }

  StmtPtr ParseMacro() {
    StmtPtr stmt = MakeStmt(StmtKind::kMacro, Current().line);
    Advance();
    stmt->signature = std::make_unique<Signature>();
    stmt->signature->name = ExpectName();
    stmt->signature->name_id = names().Intern(stmt->signature->name);
    ParseSignature(stmt->signature.get());
    ParseMacroBody(stmt.get(), "endmacro");
    return stmt;
  }

  StmtPtr ParseCallBlock() {
    StmtPtr stmt = MakeStmt(StmtKind::kCallBlock, Current().line);
    Advance();
    stmt->signature = std::make_unique<Signature>();
    stmt->signature->name = "caller";
    if (AtOperator("(")) ParseSignature(stmt->signature.get());
    stmt->expr = ParseExpression();
    if (!failed() && stmt->expr->kind != ExprKind::kCall) FailAt(stmt->line, "expected call");
    ParseMacroBody(stmt.get(), "endcall");
    return stmt;
  }

  StmtPtr ParseFilterBlock() {
    StmtPtr stmt = MakeStmt(StmtKind::kFilterBlock, Current().line);
    Advance();
    stmt->expr = ParseFilters(nullptr, true);
    stmt->bodies.push_back(ParseWholeBody("endfilter"));
    return stmt;
  }

  StmtPtr ParseWith() {
    StmtPtr stmt = MakeStmt(StmtKind::kWith, Current().line);
    Advance();
    while (!failed() && !At(TokenType::kBlockEnd)) {
      if (!stmt->targets.empty()) ExpectOperator(",");
      stmt->targets.push_back(ParseTarget({}));
      ExpectOperator("=");
      stmt->exprs.push_back(ParseExpression());
    }
    stmt->bodies.push_back(ParseWholeBody("endwith"));
    return stmt;
  }

  StmtPtr ParseGeneration() {
    StmtPtr stmt = MakeStmt(StmtKind::kScope, Current().line);
    Advance();
    const bool was_in_loop = std::exchange(in_loop_, false);
    stmt->bodies.push_back(ParseWholeBody("endgeneration"));
    in_loop_ = was_in_loop;
    return stmt;
  }

  StmtPtr ParseJump(StmtKind kind) {
    if (!in_loop_) Fail("'" + Current().text + "' outside a loop");
    StmtPtr stmt = MakeStmt(kind, Current().line);
    Advance();
    return stmt;
  }
  StmtPtr ParseBreak() { return ParseJump(StmtKind::kBreak); }
  StmtPtr ParseContinue() { return ParseJump(StmtKind::kContinue); }

  bool in_loop_ = false;
};

Status ErrorAt(int32_t line, const std::string& message) {
  return Status::InvalidArgument(fmt::format("chat template, line {}: {}", line, message));
}

}  // namespace

Result<Program> ParseProgram(std::string_view source) {
  Result<std::vector<Token>> tokens = Tokenize(source);
  if (!tokens.ok()) return tokens.status();
  Program program;
  StatementParser parser(*std::move(tokens), program.names);
  program.body = parser.ParseTemplate();
  if (parser.failed()) return ErrorAt(parser.error_line(), parser.error());
  if (std::optional<Problem> problem = FindProblem(program)) {
    return ErrorAt(problem->line, problem->message);
  }
  return program;
}

}  // namespace octavo::jinja
