#include "structured/grammar_tree.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "structured/character_reader.h"
#include "structured/grammar_limits.h"

namespace octavo::structured {
namespace {

using Kind = GrammarNode::Kind;

size_t Index(int32_t index) { return static_cast<size_t>(index); }

void AppendQuoted(std::string_view text, std::string* out) {
  out->push_back('"');
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F || c == '"' || c == '\\') {
      fmt::format_to(std::back_inserter(*out), "\\u{:04x}", byte);
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

int64_t SaturatingAdd(int64_t a, int64_t b) { return std::min(a + b, kMaxExpansion + 1); }

int64_t SaturatingProduct(int64_t a, int64_t b) {
  if (b != 0 && a > kMaxExpansion / b) return kMaxExpansion + 1;
  return a * b;
}

std::string RepeatSuffix(const GrammarNode& node) {
  if (node.max == GrammarNode::kUnbounded) {
    if (node.min <= 1) return node.min == 0 ? "*" : "+";
    return fmt::format("{{{},}}", node.min);
  }
  if (node.min == 0 && node.max == 1) return "?";
  return fmt::format("{{{},{}}}", node.min, node.max);
}

// A class as the library takes it. After a repeat it reads a class wrongly of which several ranges
// end beyond U+00FF (its masks allow what its matcher refuses): each of these stands in a class of
// its own.
std::vector<CharacterRanges> LibraryClasses(const CharacterRanges& ranges) {
  constexpr uint32_t kLastNarrow = 0xFF;
  std::vector<CharacterRanges> classes(1);
  bool has_wide = false;
  for (const auto& [first, last] : ranges) {
    const bool is_wide = last > kLastNarrow;
    if (is_wide && has_wide) classes.emplace_back();
    has_wide |= is_wide;
    classes.back().emplace_back(first, last);
  }
  return classes;
}

// How EBNF and regular expressions spell a choice of classes.
struct ClassSyntax {
  std::string_view open;
  std::string_view separator;
  std::string_view close;
  std::string (*spell)(uint32_t character);
};

constexpr ClassSyntax kEbnfClasses = {"(", " | ", ")",
                                      [](uint32_t c) { return fmt::format("\\U{:08x}", c); }};
constexpr ClassSyntax kPatternClasses = {"(?:", "|", ")",
                                         [](uint32_t c) { return fmt::format("\\u{{{:x}}}", c); }};

void AppendClass(const CharacterRanges& ranges, const ClassSyntax& syntax, std::string* out) {
  const std::vector<CharacterRanges> classes = LibraryClasses(ranges);
  if (classes.size() > 1) *out += syntax.open;
  for (size_t i = 0; i < classes.size(); ++i) {
    if (i > 0) *out += syntax.separator;
    *out += '[';
    for (const auto& [first, last] : classes[i]) {
      *out += syntax.spell(first) + "-" + syntax.spell(last);
    }
    *out += ']';
  }
  if (classes.size() > 1) *out += syntax.close;
}

// What is left of a class in a JSON string, which holds some characters only as escapes.
Status AppendPatternClass(const CharacterRanges& ranges, std::string* out) {
  CharacterRanges escaped = Complement(ranges);
  escaped.insert(escaped.end(), {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}});
  const CharacterRanges unescaped = Complement(escaped);
  if (unescaped.empty()) {
    return Status::InvalidArgument(fmt::format(
        "U+{:04X} would have to be escaped in a JSON string, which a pattern cannot ask "
        "for",
        ranges.front().first));
  }
  AppendClass(unescaped, kPatternClasses, out);
  return Status::Ok();
}

Status AppendPatternLiteral(std::string_view text, std::string* out) {
  for (const uint32_t c : DecodeUtf8Text(text)) {
    if (Status status = AppendPatternClass({{c, c}}, out); !status.ok()) return status;
  }
  return Status::Ok();
}

}  // namespace

NodeIndex GrammarTree::Add(GrammarNode node) {
  nodes_.push_back(std::move(node));
  return static_cast<NodeIndex>(nodes_.size() - 1);
}

NodeIndex GrammarTree::AddLiteral(std::string text) {
  GrammarNode node;
  node.kind = Kind::kLiteral;
  node.literal = std::move(text);
  return Add(std::move(node));
}

NodeIndex GrammarTree::AddClass(const std::vector<std::pair<uint32_t, uint32_t>>& ranges) {
  GrammarNode node;
  node.kind = Kind::kClass;
  // Surrogates are no characters of UTF-8.
  CharacterRanges others = Complement(ranges);
  others.emplace_back(0xD800, 0xDFFF);
  node.ranges = Complement(others);
  return Add(std::move(node));
}

NodeIndex GrammarTree::AddRuleReference(int32_t rule) {
  GrammarNode node;
  node.kind = Kind::kRule;
  node.rule = rule;
  return Add(std::move(node));
}

NodeIndex GrammarTree::AddSequence(std::vector<NodeIndex> children) {
  if (children.empty()) return AddLiteral("");
  if (children.size() == 1) return children.front();
  GrammarNode node;
  node.kind = Kind::kSequence;
  node.children = std::move(children);
  return Add(std::move(node));
}

NodeIndex GrammarTree::AddChoice(std::vector<NodeIndex> children) {
  OCTAVO_CHECK(!children.empty(), "a choice has an alternative");
  if (children.size() == 1) return children.front();
  GrammarNode node;
  node.kind = Kind::kChoice;
  node.children = std::move(children);
  return Add(std::move(node));
}

NodeIndex GrammarTree::AddRepeat(NodeIndex child, int64_t min, int64_t max) {
  GrammarNode node;
  node.kind = Kind::kRepeat;
  node.min = min;
  node.max = max;
  node.children = {child};
  return Add(std::move(node));
}

int32_t GrammarTree::RuleNamed(std::string_view name) {
  const auto found = rule_ids_.find(std::string(name));
  if (found != rule_ids_.end()) return found->second;
  const auto id = static_cast<int32_t>(rules_.size());
  rules_.push_back({std::string(name), -1});
  rule_ids_.emplace(name, id);
  return id;
}

Status GrammarTree::Check(int32_t root) const {
  if (Status status = CheckDefined(); !status.ok()) return status;
  if (Status status = CheckExpansion(); !status.ok()) return status;
  if (Status status = CheckWideRepeats(); !status.ok()) return status;
  if (const int64_t counts = TotalCounts(); counts > kMaxTotalCounts) {
    return Status::InvalidArgument(fmt::format(
        "the counts of repeats add up to {} (each as at most {}), but must add up to at "
        "most {}",
        counts, kMaxCountedEach, kMaxTotalCounts));
  }
  if (Status status = CheckLeftRecursion(); !status.ok()) return status;
  return CheckEnds(root);
}

Status GrammarTree::CheckDefined() const {
  if (rules_.size() > Index(kMaxRules)) {
    return Status::InvalidArgument(fmt::format("the grammar has {} rules, but must have at most {}",
                                               rules_.size(), kMaxRules));
  }
  for (const GrammarRule& rule : rules_) {
    if (rule.body < 0) {
      return Status::InvalidArgument(
          fmt::format("the grammar uses rule '{}', but does not define it", rule.name));
    }
  }
  return Status::Ok();
}

Status GrammarTree::CheckExpansion() const {
  std::vector<int64_t> costs(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const GrammarNode& node = nodes_[i];
    int64_t cost = node.children.empty() ? 1 : 0;
    for (const NodeIndex child : node.children) cost = SaturatingAdd(cost, costs[Index(child)]);
    if (node.kind == Kind::kRepeat) {
      cost = SaturatingProduct(cost, std::max<int64_t>({1, node.min, node.max}));
    }
    costs[i] = cost;
  }
  int64_t total = 0;
  for (const GrammarRule& rule : rules_) total = SaturatingAdd(total, costs[Index(rule.body)]);
  if (total <= kMaxExpansion) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("the grammar has more than {} elements with its repeats written out; lower the "
                  "counts of its repeats",
                  kMaxExpansion));
}

// The nodes that have a property: some by themselves, others through their children.
template <typename Has>
std::vector<bool> GrammarTree::NodesWith(const Has& has) const {
  std::vector<bool> result(nodes_.size(), false);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (result[i] ||
          !has(nodes_[i], [&](NodeIndex child) { return bool{result[Index(child)]}; })) {
        continue;
      }
      result[i] = true;
      changed = true;
    }
  }
  return result;
}

std::vector<bool> GrammarTree::NodesThatCan(bool be_empty) const {
  return NodesWith([this, be_empty](const GrammarNode& node, const auto& of) {
    switch (node.kind) {
      case Kind::kLiteral:
        return !be_empty || node.literal.empty();
      case Kind::kClass:
        return !be_empty;
      case Kind::kRule:
        return of(rules_[Index(node.rule)].body);
      case Kind::kSequence:
        return std::ranges::all_of(node.children, of);
      case Kind::kChoice:
        return std::ranges::any_of(node.children, of);
      case Kind::kRepeat:
        return node.min == 0 || of(node.children.front());
    }
    return false;
  });
}

int64_t GrammarTree::TotalCounts() const {
  const std::vector<bool> has_class = NodesWith([this](const GrammarNode& node, const auto& of) {
    if (node.kind == Kind::kRule) return of(rules_[Index(node.rule)].body);
    return node.kind == Kind::kClass || std::ranges::any_of(node.children, of);
  });
  int64_t total = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const int64_t count = std::max(nodes_[i].min, nodes_[i].max);
    if (nodes_[i].kind == Kind::kRepeat && has_class[i] && count > 1) {
      total += std::min(count, kMaxCountedEach);
    }
  }
  return total;
}

// A counted repeat of nearly any character makes each mask slow: the library then looks at each
// token anew.
Status GrammarTree::CheckWideRepeats() const {
  const std::vector<bool> wide = NodesWith([this](const GrammarNode& node, const auto& of) {
    if (node.kind == Kind::kRule) return of(rules_[Index(node.rule)].body);
    uint32_t num_characters = 0;
    for (const auto& [first, last] : node.ranges) num_characters += last - first + 1;
    return num_characters > kMaxNarrowClass || std::ranges::any_of(node.children, of);
  });
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const GrammarNode& node = nodes_[i];
    const int64_t count = std::max(node.min, node.max);
    if (node.kind != Kind::kRepeat || !wide[i] || count <= kMaxWideRepeat) continue;
    return Status::InvalidArgument(fmt::format(
        "a repeat has count {}, but must have at most {} where it holds a class of more "
        "than {} characters",
        count, kMaxWideRepeat, kMaxNarrowClass));
  }
  return Status::Ok();
}

void GrammarTree::AppendLeftRules(NodeIndex index, const std::vector<bool>& nullable,
                                  std::vector<int32_t>* rules) const {
  const GrammarNode& node = nodes_[Index(index)];
  if (node.kind == Kind::kRule) rules->push_back(node.rule);
  for (const NodeIndex child : node.children) {
    AppendLeftRules(child, nullable, rules);
    if (node.kind == Kind::kSequence && !nullable[Index(child)]) break;
  }
}

// Depth first over "may begin with", without recursion; a rule met while it is open begins with
// itself.
Status GrammarTree::CheckLeftRecursion() const {
  const std::vector<bool> nullable = NodesThatCan(/*be_empty=*/true);
  std::vector<std::vector<int32_t>> left(rules_.size());
  for (size_t rule = 0; rule < rules_.size(); ++rule) {
    AppendLeftRules(rules_[rule].body, nullable, &left[rule]);
    std::ranges::sort(left[rule]);
    left[rule].erase(std::unique(left[rule].begin(), left[rule].end()), left[rule].end());
  }
  enum class Mark : uint8_t { kNew, kOpen, kDone };
  std::vector<Mark> marks(rules_.size(), Mark::kNew);
  struct Visit {
    size_t rule;
    size_t next;
  };
  std::vector<Visit> open;
  for (size_t start = 0; start < rules_.size(); ++start) {
    if (marks[start] == Mark::kNew) open.push_back({start, 0});
    while (!open.empty()) {
      Visit& visit = open.back();
      marks[visit.rule] = Mark::kOpen;
      if (visit.next == left[visit.rule].size()) {
        marks[visit.rule] = Mark::kDone;
        open.pop_back();
        continue;
      }
      const size_t next = Index(left[visit.rule][visit.next++]);
      if (marks[next] == Mark::kOpen) {
        return Status::InvalidArgument(
            fmt::format("rule '{}' of the grammar is left-recursive: it can begin with itself; "
                        "write a repeat instead",
                        rules_[next].name));
      }
      if (marks[next] == Mark::kNew) open.push_back({next, 0});
    }
  }
  return Status::Ok();
}

// A rule ends if some text of finite length matches it.
Status GrammarTree::CheckEnds(int32_t root) const {
  const std::vector<bool> ends = NodesThatCan(/*be_empty=*/false);
  const std::vector<bool> reachable = ReachableRules(root);
  for (size_t rule = 0; rule < rules_.size(); ++rule) {
    if (!reachable[rule] || ends[Index(rules_[rule].body)]) continue;
    return Status::InvalidArgument(
        fmt::format("rule '{}' of the grammar never ends: every way through it contains itself",
                    rules_[rule].name));
  }
  return Status::Ok();
}

std::vector<bool> GrammarTree::ReachableRules(int32_t root) const {
  std::vector<bool> reachable(rules_.size(), false);
  std::vector<NodeIndex> open{rules_[Index(root)].body};
  reachable[Index(root)] = true;
  while (!open.empty()) {
    const GrammarNode& node = nodes_[Index(open.back())];
    open.pop_back();
    open.insert(open.end(), node.children.begin(), node.children.end());
    if (node.kind != Kind::kRule || reachable[Index(node.rule)]) continue;
    reachable[Index(node.rule)] = true;
    open.push_back(rules_[Index(node.rule)].body);
  }
  return reachable;
}

std::string GrammarTree::Print(int32_t root) const {
  const std::vector<bool> reachable = ReachableRules(root);
  std::vector<std::string> names(rules_.size());
  for (size_t rule = 0; rule < rules_.size(); ++rule) {
    names[rule] = rule == Index(root) ? "root" : fmt::format("r{}", rule);
  }
  std::string out;
  for (size_t rule = 0; rule < rules_.size(); ++rule) {
    if (!reachable[rule]) continue;
    out += names[rule] + " ::= ";
    PrintNode(rules_[rule].body, names, &out);
    out += '\n';
  }
  return out;
}

bool GrammarTree::IsRepeatedClass(const GrammarNode& node) const {
  return node.kind == Kind::kRepeat && nodes_[Index(node.children.front())].kind == Kind::kClass;
}

Result<std::string> GrammarTree::PrintJsonPattern(int32_t rule) const {
  std::string out;
  if (Status status = PrintPatternNode(rules_[Index(rule)].body, &out); !status.ok()) return status;
  return out;
}

Status GrammarTree::PrintPatternNode(NodeIndex index, std::string* out) const {
  const GrammarNode& node = nodes_[Index(index)];
  switch (node.kind) {
    case Kind::kLiteral:
      return AppendPatternLiteral(node.literal, out);
    case Kind::kClass:
      return AppendPatternClass(node.ranges, out);
    case Kind::kRule:
      OCTAVO_CHECK(false, "a regular expression has one rule");
    case Kind::kRepeat:
    case Kind::kSequence:
    case Kind::kChoice:
      break;
  }
  // The library knows a repeated class for what it is only without a group around it.
  const bool groups = !IsRepeatedClass(node);
  if (groups) *out += "(?:";
  for (size_t i = 0; i < node.children.size(); ++i) {
    if (i > 0 && node.kind == Kind::kChoice) *out += '|';
    if (Status status = PrintPatternNode(node.children[i], out); !status.ok()) return status;
  }
  if (groups) *out += ')';
  if (node.kind == Kind::kRepeat) *out += RepeatSuffix(node);
  return Status::Ok();
}

void GrammarTree::PrintNode(NodeIndex index, const std::vector<std::string>& names,
                            std::string* out) const {
  const GrammarNode& node = nodes_[Index(index)];
  switch (node.kind) {
    case Kind::kLiteral:
      return AppendQuoted(node.literal, out);
    case Kind::kRule:
      *out += names[Index(node.rule)];
      return;
    case Kind::kClass:
      return AppendClass(node.ranges, kEbnfClasses, out);
    case Kind::kRepeat:
      if (!IsRepeatedClass(node)) *out += '(';
      PrintNode(node.children.front(), names, out);
      if (!IsRepeatedClass(node)) *out += ')';
      *out += RepeatSuffix(node);
      return;
    case Kind::kSequence:
    case Kind::kChoice:
      *out += '(';
      for (size_t i = 0; i < node.children.size(); ++i) {
        if (i > 0) *out += node.kind == Kind::kChoice ? " | " : " ";
        PrintNode(node.children[i], names, out);
      }
      *out += ')';
      return;
  }
}

}  // namespace octavo::structured
