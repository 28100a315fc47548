#include "structured/ebnf_parser.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "structured/character_reader.h"
#include "structured/grammar_limits.h"

namespace octavo::structured {
namespace {

bool IsNameCharacter(uint32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

bool IsMacro(std::string_view name) {
  return name == "TagDispatch" || name == "Token" || name == "ExcludeToken" ||
         name == "TokenTagDispatch" || name == "Regex" || name == "Substring";
}

class EbnfParser {
 public:
  explicit EbnfParser(CharacterReader reader) : reader_(std::move(reader)) {}

  Result<GrammarTree> Parse() {
    const int32_t root = tree_.RuleNamed("root");
    for (SkipSpace(); !reader_.at_end(); SkipSpace()) {
      if (Status status = ReadRule(); !status.ok()) return status;
    }
    if (Status status = tree_.Check(root); !status.ok()) return status;
    return std::move(tree_);
  }

 private:
  void SkipSpace() {
    while (true) {
      const uint32_t c = reader_.Peek();
      if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        reader_.Skip();
      } else if (c == '#') {
        while (!reader_.at_end() && reader_.Peek() != '\n' && reader_.Peek() != '\r')
          reader_.Skip();
      } else {
        return;
      }
    }
  }

  // The length of the name that begins here, 0 for none.
  size_t NameLength() const {
    size_t length = 0;
    while (IsNameCharacter(reader_.Peek(length))) ++length;
    return length;
  }

  std::string ReadName() {
    std::string name;
    for (size_t left = NameLength(); left > 0; --left, reader_.Skip()) {
      name.push_back(static_cast<char>(reader_.Peek()));
    }
    return name;
  }

  // Whether "name ::=" stands here: the next rule, not a part of this one.
  bool AtRule() const {
    size_t i = NameLength();
    if (i == 0) return false;
    while (reader_.Peek(i) == ' ' || reader_.Peek(i) == '\t') ++i;
    return reader_.Peek(i) == ':' && reader_.Peek(i + 1) == ':' && reader_.Peek(i + 2) == '=';
  }

  Status ReadRule() {
    if (!AtRule()) return reader_.Error("a rule must begin here: name ::= body");
    const std::string name = ReadName();
    SkipSpace();
    reader_.Skip(3);
    const auto rule = static_cast<size_t>(tree_.RuleNamed(name));
    if (tree_.rules()[rule].body >= 0) {
      return reader_.Error(fmt::format("rule '{}' is defined twice", name));
    }
    const Result<NodeIndex> body = ReadChoice(0);
    if (!body.ok()) return body.status();
    tree_.rules()[rule].body = *body;
    return Status::Ok();
  }

  Result<NodeIndex> ReadChoice(int32_t depth) {
    if (depth > kMaxDepth) {
      return reader_.Error(fmt::format("groups are nested more than {} deep, the most", kMaxDepth));
    }
    std::vector<NodeIndex> alternatives;
    do {
      std::vector<NodeIndex> parts;
      for (SkipSpace(); AtElement(); SkipSpace()) {
        const Result<NodeIndex> part = ReadRepeat(depth);
        if (!part.ok()) return part.status();
        parts.push_back(*part);
      }
      if (parts.empty()) return reader_.Error("an element must stand here; \"\" is the empty text");
      alternatives.push_back(tree_.AddSequence(std::move(parts)));
    } while (reader_.TakeIf('|'));
    return tree_.AddChoice(std::move(alternatives));
  }

  bool AtElement() const {
    const uint32_t c = reader_.Peek();
    return c == '"' || c == '[' || c == '(' || (NameLength() > 0 && !AtRule());
  }

  Result<NodeIndex> ReadRepeat(int32_t depth) {
    Result<NodeIndex> element = ReadElement(depth);
    if (!element.ok()) return element;
    const uint32_t c = reader_.Peek();
    if (c == '{') {
      const Result<std::pair<int64_t, int64_t>> counts = reader_.ReadCounts();
      if (!counts.ok()) return counts.status();
      return tree_.AddRepeat(*element, counts->first, counts->second);
    }
    if (c != '*' && c != '+' && c != '?') return element;
    reader_.Skip();
    return tree_.AddRepeat(*element, c == '+' ? 1 : 0, c == '?' ? 1 : GrammarNode::kUnbounded);
  }

  Result<NodeIndex> ReadElement(int32_t depth) {
    if (reader_.Peek() == '"') return ReadLiteral();
    if (reader_.Peek() == '[') {
      const Result<CharacterRanges> ranges = reader_.ReadClass();
      if (!ranges.ok()) return ranges.status();
      return tree_.AddClass(*ranges);
    }
    if (reader_.TakeIf('(')) {
      const Result<NodeIndex> body = ReadChoice(depth + 1);
      if (!body.ok()) return body;
      if (!reader_.TakeIf(')')) return reader_.Error("a group is not closed with ')'");
      return body;
    }
    const std::string name = ReadName();
    if (reader_.Peek() == '(' && IsMacro(name)) {
      return reader_.Error(fmt::format("the macro {} is not supported", name));
    }
    return tree_.AddRuleReference(tree_.RuleNamed(name));
  }

  Result<NodeIndex> ReadLiteral() {
    reader_.Skip();  // '"'
    std::string text;
    while (!reader_.TakeIf('"')) {
      uint32_t c = reader_.Peek();
      if (c == CharacterReader::kEnd || c == '\n' || c == '\r') {
        return reader_.Error("a text is not closed with '\"' on its line");
      }
      if (c == '\\') {
        const Result<uint32_t> escaped = reader_.ReadEscape();
        if (!escaped.ok()) return escaped.status();
        c = *escaped;
      } else {
        reader_.Skip();
      }
      AppendUtf8(c, &text);
    }
    return tree_.AddLiteral(std::move(text));
  }

  CharacterReader reader_;
  GrammarTree tree_;
};

}  // namespace

Result<GrammarTree> ParseEbnf(std::string_view text) {
  Result<CharacterReader> reader = CharacterReader::Make("the grammar", text);
  if (!reader.ok()) return reader.status();
  return EbnfParser(*std::move(reader)).Parse();
}

}  // namespace octavo::structured
