#include "structured/grammar_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "structured/ebnf_parser.h"
#include "structured/grammar_limits.h"
#include "structured/regex_parser.h"
#include "structured/schema_guard.h"
#include "text/utf8.h"

namespace octavo::structured {
namespace {

Status CheckSize(std::string_view what, size_t num_bytes) {
  if (num_bytes <= kMaxSourceBytes) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("{} has {} bytes, but must have at most {}", what, num_bytes, kMaxSourceBytes));
}

Result<GrammarSource> Printed(const Result<GrammarTree>& tree) {
  if (!tree.ok()) return tree.status();
  return GrammarSource{GrammarSource::Kind::kEbnf, tree->Print(0)};
}

Result<GrammarSource> GuardChoice(const std::vector<std::string>& texts) {
  if (texts.size() > static_cast<size_t>(kMaxChoices)) {
    return Status::InvalidArgument(
        fmt::format("choice has {} texts, but must have at most {}", texts.size(), kMaxChoices));
  }
  size_t num_bytes = 0;
  for (const std::string& text : texts) num_bytes += text.size();
  if (Status status = CheckSize("choice", num_bytes); !status.ok()) return status;
  GrammarTree tree;
  const auto root = static_cast<size_t>(tree.RuleNamed("root"));
  std::vector<NodeIndex> alternatives;
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string& text = texts[i];
    if (text.empty()) return Status::InvalidArgument(fmt::format("choice[{}] is empty", i));
    if (text::ValidateUtf8(text) || text.find('\0') != text.npos) {
      return Status::InvalidArgument(
          fmt::format("choice[{}] must be UTF-8 without a NUL, but is not", i));
    }
    alternatives.push_back(tree.AddLiteral(text));
  }
  tree.rules()[root].body = tree.AddChoice(std::move(alternatives));
  return GrammarSource{GrammarSource::Kind::kEbnf, tree.Print(0)};
}

}  // namespace

Result<GrammarSource> GuardGrammar(const StructuredOutputs& outputs) {
  const int num_kinds = (outputs.json ? 1 : 0) + (outputs.regex ? 1 : 0) +
                        (outputs.grammar ? 1 : 0) + (outputs.choice.empty() ? 0 : 1) +
                        (outputs.json_object ? 1 : 0);
  if (num_kinds != 1) {
    return Status::InvalidArgument(
        fmt::format("structured outputs name {} kinds, but must name exactly one of json, regex, "
                    "choice, grammar, json_object",
                    num_kinds));
  }
  if (outputs.json_object) {
    return GrammarSource{GrammarSource::Kind::kJsonSchema, R"({"type":"object"})"};
  }
  if (outputs.json) {
    if (Status status = CheckSize("the JSON schema", outputs.json->size()); !status.ok()) {
      return status;
    }
    Result<std::string> schema = GuardSchema(*outputs.json);
    if (!schema.ok()) return schema.status();
    return GrammarSource{GrammarSource::Kind::kJsonSchema, *std::move(schema)};
  }
  if (outputs.regex) {
    if (Status status = CheckSize("the regex", outputs.regex->size()); !status.ok()) return status;
    return Printed(ParseRegex("the regex", *outputs.regex));
  }
  if (outputs.grammar) {
    if (Status status = CheckSize("the grammar", outputs.grammar->size()); !status.ok()) {
      return status;
    }
    return Printed(ParseEbnf(*outputs.grammar));
  }
  return GuardChoice(outputs.choice);
}

}  // namespace octavo::structured
