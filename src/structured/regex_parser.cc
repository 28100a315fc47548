#include "structured/regex_parser.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "structured/character_reader.h"
#include "structured/grammar_limits.h"

namespace octavo::structured {
namespace {

class RegexParser {
 public:
  explicit RegexParser(CharacterReader reader) : reader_(std::move(reader)) {}

  Result<GrammarTree> Parse() {
    const int32_t root = tree_.RuleNamed("root");
    const Result<NodeIndex> body = ReadChoice(0);
    if (!body.ok()) return body.status();
    if (!reader_.at_end()) return reader_.Error("')' closes no group");
    tree_.rules()[static_cast<size_t>(root)].body = *body;
    if (Status status = tree_.Check(root); !status.ok()) {
      return reader_.Error(status.message());
    }
    return std::move(tree_);
  }

 private:
  Result<NodeIndex> ReadChoice(int32_t depth) {
    if (depth > kMaxDepth) {
      return reader_.Error(fmt::format("groups are nested more than {} deep, the most", kMaxDepth));
    }
    std::vector<NodeIndex> alternatives;
    do {
      const Result<NodeIndex> alternative = ReadSequence(depth);
      if (!alternative.ok()) return alternative.status();
      alternatives.push_back(*alternative);
    } while (reader_.TakeIf('|'));
    return tree_.AddChoice(std::move(alternatives));
  }

  // An anchor says what holds anyway where an alternative of the whole begins or ends.
  Result<NodeIndex> ReadSequence(int32_t depth) {
    if (depth == 0) reader_.TakeIf('^');
    std::vector<NodeIndex> parts;
    while (!reader_.at_end() && reader_.Peek() != '|' && reader_.Peek() != ')') {
      const uint32_t after = reader_.Peek(1);
      if (depth == 0 && reader_.Peek() == '$' && (after == CharacterReader::kEnd || after == '|')) {
        reader_.Skip();
        break;
      }
      const Result<NodeIndex> part = ReadRepeat(depth);
      if (!part.ok()) return part.status();
      parts.push_back(*part);
    }
    return tree_.AddSequence(std::move(parts));
  }

  // Whether a repeat is greedy or lazy makes no difference to what matches.
  Result<NodeIndex> ReadRepeat(int32_t depth) {
    const Result<NodeIndex> atom = ReadAtom(depth);
    if (!atom.ok() || !IsQuantifier(reader_.Peek())) return atom;
    std::pair<int64_t, int64_t> counts{0, GrammarNode::kUnbounded};
    if (reader_.Peek() == '{') {
      const Result<std::pair<int64_t, int64_t>> read = reader_.ReadCounts();
      if (!read.ok()) return read.status();
      counts = *read;
    } else {
      if (reader_.Peek() == '+') counts.first = 1;
      if (reader_.Peek() == '?') counts.second = 1;
      reader_.Skip();
    }
    reader_.TakeIf('?');
    if (IsQuantifier(reader_.Peek())) return reader_.Error("a repeat follows a repeat");
    return tree_.AddRepeat(*atom, counts.first, counts.second);
  }

  static bool IsQuantifier(uint32_t c) { return c == '*' || c == '+' || c == '?' || c == '{'; }

  Result<NodeIndex> ReadAtom(int32_t depth) {
    CharacterRanges ranges;
    const uint32_t c = reader_.Peek();
    if (c == '(') return ReadGroup(depth);
    if (c == '[') {
      const Result<CharacterRanges> read = reader_.ReadClass();
      if (!read.ok()) return read.status();
      return tree_.AddClass(*read);
    }
    if (c == '.') {
      reader_.Skip();
      return tree_.AddClass(Complement({{'\n', '\n'}}));
    }
    if (reader_.ReadShorthand(&ranges)) return tree_.AddClass(ranges);
    std::string literal;
    if (c == '\\') {
      const Result<uint32_t> escaped = reader_.ReadEscape();
      if (!escaped.ok()) return escaped.status();
      AppendUtf8(*escaped, &literal);
      return tree_.AddLiteral(std::move(literal));
    }
    if (c == '^' || c == '$') {
      return reader_.Error("an anchor within the expression is not supported");
    }
    if (IsQuantifier(c)) return reader_.Error("a repeat follows nothing; write \\ before it");
    reader_.Skip();
    AppendUtf8(c, &literal);
    return tree_.AddLiteral(std::move(literal));
  }

  Result<NodeIndex> ReadGroup(int32_t depth) {
    reader_.Skip();  // '('
    if (reader_.TakeIf('?')) {
      if (Status status = SkipGroupKind(); !status.ok()) return status;
    }
    const Result<NodeIndex> body = ReadChoice(depth + 1);
    if (!body.ok()) return body;
    if (!reader_.TakeIf(')')) return reader_.Error("a group is not closed with ')'");
    return body;
  }

  // After "(?": a group without capture or with a name is like any other.
  Status SkipGroupKind() {
    if (reader_.TakeIf(':')) return Status::Ok();
    if (reader_.StartsWith("=") || reader_.StartsWith("!") || reader_.StartsWith("<=") ||
        reader_.StartsWith("<!")) {
      return reader_.Error("look-ahead and look-behind are not supported");
    }
    if (reader_.StartsWith("P<")) reader_.Skip();
    if (!reader_.TakeIf('<')) return reader_.Error("only (?:...) and (?<name>...) are supported");
    while (!reader_.at_end() && reader_.Peek() != '>') reader_.Skip();
    return reader_.TakeIf('>') ? Status::Ok()
                               : reader_.Error("a group's name is not closed with '>'");
  }

  CharacterReader reader_;
  GrammarTree tree_;
};

}  // namespace

Result<GrammarTree> ParseRegex(std::string_view what, std::string_view text) {
  Result<CharacterReader> reader = CharacterReader::Make(what, text);
  if (!reader.ok()) return reader.status();
  return RegexParser(*std::move(reader)).Parse();
}

}  // namespace octavo::structured
