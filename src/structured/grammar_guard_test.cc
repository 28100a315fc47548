#include "structured/grammar_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "structured/grammar_limits.h"

namespace octavo::structured {
namespace {

using testing::HasSubstr;

std::string Repeated(std::string_view text, int64_t count) {
  std::string result;
  for (int64_t i = 0; i < count; ++i) result += text;
  return result;
}

Result<GrammarSource> GuardJson(std::string text) {
  StructuredOutputs outputs;
  outputs.json = std::move(text);
  return GuardGrammar(outputs);
}

Result<GrammarSource> GuardRegex(std::string text) {
  StructuredOutputs outputs;
  outputs.regex = std::move(text);
  return GuardGrammar(outputs);
}

Result<GrammarSource> GuardEbnf(std::string text) {
  StructuredOutputs outputs;
  outputs.grammar = std::move(text);
  return GuardGrammar(outputs);
}

Result<GrammarSource> GuardChoices(std::vector<std::string> texts) {
  StructuredOutputs outputs;
  outputs.choice = std::move(texts);
  return GuardGrammar(outputs);
}

void ExpectAccepted(const Result<GrammarSource>& result, std::string_view input = {}) {
  EXPECT_TRUE(result.ok()) << input << ": " << result.status().message();
}

void ExpectRefused(const Result<GrammarSource>& result, std::string_view message) {
  ASSERT_FALSE(result.ok()) << "should be refused with: " << message;
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(result.status().message(), HasSubstr(std::string(message)));
}

TEST(GrammarGuardTest, NeedsExactlyOneKind) {
  ExpectRefused(GuardGrammar({}), "name 0 kinds");
  StructuredOutputs two;
  two.regex = "a";
  two.json_object = true;
  ExpectRefused(GuardGrammar(two), "name 2 kinds");
}

// The public report's inputs, each of which ends or hangs a process that hands it on.
TEST(GrammarGuardTest, RefusesThePublicReportsInputs) {
  ExpectRefused(GuardEbnf("root ::= " + Repeated("(", 60000) + "\"a\"" + Repeated(")", 60000)),
                "nested more than 32 deep");
  ExpectRefused(GuardEbnf("root ::= root"), "left-recursive");
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 5000; ++i)
    chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
  ExpectRefused(GuardEbnf(chain + "r5000 ::= \"a\"\n"), "5002 rules, but must have at most 500");
  ExpectRefused(GuardJson(R"({"$ref":"#/$defs/N","$defs":{"N":{"$ref":"#/$defs/N"}}})"),
                "leads back to itself");
  ExpectRefused(GuardJson(R"({"type":"array","maxItems":18446744073709551615})"),
                "maxItems is 18446744073709551615, but must be a whole number in [0, 10000]");
  ExpectRefused(GuardJson(R"({"type":"array","minItems":18446744073709551615})"), "minItems is");
  ExpectRefused(GuardJson(R"({"type":"string","pattern":")" + Repeated("(", 60000) + "\"}"),
                "pattern has 60000 bytes, but must have at most 4096");
  ExpectRefused(GuardJson(Repeated(R"({"type":"object","properties":{"a":)", 10000) + "true" +
                          Repeated("}}", 10000)),
                "bytes, but must have at most 131072");
  ExpectRefused(GuardJson(Repeated(R"({"items":)", 10000) + "true" + Repeated("}", 10000)),
                "nested more than 64 deep");
}

TEST(GrammarGuardTest, HoldsTextsToTheirSize) {
  ExpectAccepted(GuardRegex(Repeated("a", kMaxExpansion)));
  ExpectRefused(GuardRegex(Repeated("a", kMaxExpansion + 1)), "more than 20000 elements");
  const std::string comment(kMaxSourceBytes - 13, '#');
  ExpectAccepted(GuardEbnf("root ::= \"a\"\n" + comment));
  ExpectRefused(GuardEbnf("root ::= \"a\"\n" + comment + "#"),
                "has 131073 bytes, but must have at most 131072");
}

TEST(GrammarGuardTest, HoldsGroupsToTheirDepth) {
  for (const int depth : {kMaxDepth, kMaxDepth + 1}) {
    const std::string text = Repeated("(", depth) + "\"a\"" + Repeated(")", depth);
    if (depth == kMaxDepth) {
      ExpectAccepted(GuardRegex(text));
      ExpectAccepted(GuardEbnf("root ::= " + text));
    } else {
      ExpectRefused(GuardRegex(text), "nested more than 32 deep");
      ExpectRefused(GuardEbnf("root ::= " + text), "nested more than 32 deep");
    }
  }
}

TEST(GrammarGuardTest, HoldsRulesChoicesAndRepeatsToTheirNumber) {
  std::string rules = "root ::= \"a\"\n";
  for (int i = 1; i < kMaxRules; ++i) rules += "r" + std::to_string(i) + " ::= \"a\"\n";
  ExpectAccepted(GuardEbnf(rules));
  ExpectRefused(GuardEbnf(rules + "more ::= \"a\"\n"), "501 rules, but must have at most 500");

  std::vector<std::string> choices(kMaxChoices, "a");
  ExpectAccepted(GuardChoices(choices));
  choices.push_back("a");
  ExpectRefused(GuardChoices(choices), "1001 texts, but must have at most 1000");

  ExpectAccepted(GuardRegex("[a-z]{10000}"));
  ExpectRefused(GuardRegex("[a-z]{10001}"), "count is above 10000");
  ExpectRefused(GuardEbnf("root ::= \"a\"{99999999999999999999}"), "count is above 10000");
  ExpectAccepted(GuardRegex(".{0,128}"));
  ExpectRefused(GuardRegex(".{0,129}"), "count 129, but must have at most 128");
  ExpectRefused(GuardEbnf("root ::= any{200,}\nany ::= [^a]"), "count 200");
  ExpectAccepted(GuardRegex(Repeated("[ab]{128}", 8)));
  ExpectRefused(GuardRegex(Repeated("[ab]{128}", 8) + "[ab]{2}"),
                "the counts of repeats add up to 1026");
  ExpectAccepted(GuardRegex("((ab){100}){100}"));
  ExpectRefused(GuardRegex("((ab){100}){101}"), "more than 20000 elements");
}

TEST(GrammarGuardTest, RefusesRulesThatCannotWork) {
  ExpectRefused(GuardEbnf("root ::= a \"x\"\na ::= b\nb ::= a | \"y\""), "left-recursive");
  // Through what may be empty.
  ExpectRefused(GuardEbnf("root ::= e root \"x\" | \"y\"\ne ::= \"\" | \"z\""),
                "rule 'root' of the grammar is left-recursive");
  ExpectRefused(GuardEbnf("root ::= (\"z\"* root)? \"y\""), "left-recursive");
  ExpectAccepted(GuardEbnf("root ::= \"x\" root | \"y\""));
  ExpectRefused(GuardEbnf("root ::= \"x\" root"), "rule 'root' of the grammar never ends");
  ExpectRefused(GuardEbnf("root ::= \"x\" a"), "uses rule 'a', but does not define it");
  ExpectRefused(GuardEbnf("a ::= \"x\""), "uses rule 'root', but does not define it");
  ExpectRefused(GuardEbnf("root ::= \"x\"\nroot ::= \"y\""), "defined twice");
  ExpectAccepted(GuardEbnf("root ::= \"x\"\nunused ::= \"y\""));
}

TEST(GrammarGuardTest, RefusesWhatOfEbnfItDoesNotMean) {
  for (const char* text :
       {"root ::= Token(5)", "root ::= TagDispatch((\"a\", root))", "root[lazy] ::= \"a\"",
        "root ::= \"a\" (=\"b\")", "root ::= ", "root = \"a\"", "root ::= \"a", "root ::= [a",
        "root ::= [b-a]", "root ::= []", "root ::= \"a\"{2,1}", "root ::= (\"a\"", "root ::= |",
        "root ::= \"\\q\"", "root ::= \"\\ud800\"", "\"a\"", ""}) {
    EXPECT_FALSE(GuardEbnf(text).ok()) << text;
  }
  ExpectRefused(GuardEbnf("root ::= \"\xFF\""), "is not UTF-8 at byte 10");
  ExpectRefused(GuardEbnf(std::string("root ::= \"\0\"", 12)), "holds a NUL at byte 10");
}

TEST(GrammarGuardTest, RefusesWhatOfRegularExpressionsItDoesNotMean) {
  for (const char* text :
       {"(?=a)",  "(?!a)", "(?<=a)b", "(?<!a)b", "(?i)a", "(a)\\1", "\\bword\\b", "\\p{L}", "a**",
        "a{2,1}", "a{x}",  "*a",      "a(^b)",   "a$b",   "[b-a]",  "[]",         "(a",     "a)",
        "[a",     "\\",    "\\q",     "\\x4",    "a++",   "[]a]",   "[^]]"}) {
    EXPECT_FALSE(GuardRegex(text).ok()) << text;
  }
  for (const char* text : {"", "^a$", "^a|b$", "(?:a)(?<name>b)(?P<other>c)", "a*?b+?c??d{2}?",
                           "[\\d\\w_-]", "\\u{1F600}", "\\x41", "a||b", "()"}) {
    ExpectAccepted(GuardRegex(text), text);
  }
}

TEST(GrammarGuardTest, PrintsWhatItReadInOneForm) {
  EXPECT_EQ(GuardRegex("ab|[0-2]{2,}x?").value().text,
            "root ::= ((\"a\" \"b\") | ([\\U00000030-\\U00000032]{2,} (\"x\")?))\n");
  EXPECT_EQ(GuardChoices({"say \"hi\"\n", "\xC3\xA9\\"}).value().text,
            "root ::= (\"say \\u0022hi\\u0022\\u000a\" | \"\xC3\xA9\\u005c\")\n");
  EXPECT_EQ(GuardEbnf("root ::= item+ # all\n  | unused-not\nitem ::= \"i\"\nunused ::= root\n"
                      "unused-not ::= \"u\"")
                .value()
                .text,
            "root ::= ((r1)+ | r2)\nr1 ::= \"i\"\nr2 ::= \"u\"\n");
}

TEST(GrammarGuardTest, RefusesChoicesThatAreNoText) {
  ExpectRefused(GuardChoices({"a", ""}), "choice[1] is empty");
  ExpectRefused(GuardChoices({"\xC3"}), "choice[0] must be UTF-8");
}

}  // namespace
}  // namespace octavo::structured
