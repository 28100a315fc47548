#pragma once

// Purpose:    a grammar of rules over characters, what must hold of it before it is compiled, and
//             its canonical EBNF text. Regular expressions, EBNF and lists of choices all become
//             one, so that the library only ever reads what Print wrote.
// Ownership:  a plain value; nodes are named by their index.
// Threading:  plain data.
// Invariants: a node's children precede it, so no node contains itself but through a rule.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "octavo/status.h"

namespace octavo::structured {

using NodeIndex = int32_t;

struct GrammarNode {
  enum class Kind : uint8_t { kLiteral, kClass, kRule, kSequence, kChoice, kRepeat };

  static constexpr int64_t kUnbounded = -1;

  Kind kind = Kind::kLiteral;
  std::string literal;                                // UTF-8, may be empty
  std::vector<std::pair<uint32_t, uint32_t>> ranges;  // of a class: code points, both ends included
  int32_t rule = 0;
  int64_t min = 0, max = 0;  // of a repeat; max may be kUnbounded
  std::vector<NodeIndex> children;
};

struct GrammarRule {
  std::string name;
  NodeIndex body = -1;  // -1 = not defined yet
};

class GrammarTree {
 public:
  NodeIndex AddLiteral(std::string text);
  // REQUIRES: ranges is not empty.
  NodeIndex AddClass(const std::vector<std::pair<uint32_t, uint32_t>>& ranges);
  NodeIndex AddRuleReference(int32_t rule);
  // The child itself, if there is one only.
  NodeIndex AddSequence(std::vector<NodeIndex> children);
  NodeIndex AddChoice(std::vector<NodeIndex> children);
  NodeIndex AddRepeat(NodeIndex child, int64_t min, int64_t max);

  // The rule of this name, made if it is new.
  int32_t RuleNamed(std::string_view name);
  std::vector<GrammarRule>& rules() { return rules_; }
  const std::vector<GrammarRule>& rules() const { return rules_; }
  const std::vector<GrammarNode>& nodes() const { return nodes_; }

  // Every rule is defined; no rule can begin with itself; the rule `root` and all that it needs can
  // end; written out, the grammar has at most kMaxExpansion elements.
  Status Check(int32_t root) const;
  // What the counts of its repeats of classes add up to, each as at most kMaxCountedEach: the
  // library looks at the whole vocabulary for each.
  int64_t TotalCounts() const;

  // The rules that `root` needs, `root` as the rule "root".
  std::string Print(int32_t root) const;
  // The body of `rule` as a regular expression in ASCII over the characters that a JSON string
  // holds unescaped; an error if it needs others. REQUIRES: it refers to no rule.
  Result<std::string> PrintJsonPattern(int32_t rule) const;

 private:
  NodeIndex Add(GrammarNode node);
  Status CheckDefined() const;
  Status CheckExpansion() const;
  Status CheckWideRepeats() const;
  Status CheckLeftRecursion() const;
  Status CheckEnds(int32_t root) const;
  template <typename Has>
  std::vector<bool> NodesWith(const Has& has) const;
  // The nodes that some text matches: the empty one, or any of finite length.
  std::vector<bool> NodesThatCan(bool be_empty) const;
  // The rules that the text of `node` may begin with.
  void AppendLeftRules(NodeIndex node, const std::vector<bool>& nullable,
                       std::vector<int32_t>* rules) const;
  std::vector<bool> ReachableRules(int32_t root) const;
  bool IsRepeatedClass(const GrammarNode& node) const;
  Status PrintPatternNode(NodeIndex index, std::string* out) const;
  void PrintNode(NodeIndex index, const std::vector<std::string>& names, std::string* out) const;

  std::vector<GrammarNode> nodes_;
  std::vector<GrammarRule> rules_;
  std::unordered_map<std::string, int32_t> rule_ids_;
};

}  // namespace octavo::structured
