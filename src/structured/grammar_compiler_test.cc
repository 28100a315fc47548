#include "structured/grammar_compiler.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <random>
#include <regex>
#include <string>
#include <thread>

#include "structured/grammar_cache.h"
#include "structured/schema_formats.h"
#include "text/tokenizer_factory.h"
#include "text/toy_vocabulary.h"
#include "text/utf8.h"

namespace octavo::structured {
namespace {

using text::testing::kToyStop;
using Grammar = std::shared_ptr<const CompiledGrammar>;

class GrammarCompilerTest : public testing::Test {
 protected:
  GrammarCompilerTest() : tokenizer_(*text::MakeTokenizer(text::testing::ToyBpe())) {}

  Grammar MustCompile(const StructuredOutputs& outputs) {
    Result<Grammar> grammar = compiler_.Compile(outputs);
    EXPECT_TRUE(grammar.ok()) << grammar.status().message();
    return grammar.ok() ? *grammar : nullptr;
  }

  Grammar MustCompileRegex(const std::string& regex) {
    StructuredOutputs outputs;
    outputs.regex = regex;
    return MustCompile(outputs);
  }

  Grammar MustCompileSchema(const std::string& schema) {
    StructuredOutputs outputs;
    outputs.json = schema;
    return MustCompile(outputs);
  }

  static bool Matches(const Grammar& grammar, std::string_view text) {
    GrammarMatcher matcher(grammar);
    return matcher.AcceptBytes(text) && matcher.IsCompleted();
  }

  // A text that tokens drawn from the masks spell, at most `max_tokens` long; nothing if it has not
  // ended by then.
  std::optional<std::string> RandomText(const Grammar& grammar, uint32_t seed, int max_tokens) {
    GrammarMatcher matcher(grammar);
    TokenBitmask mask(tokenizer_->vocab_size());
    std::mt19937 random(seed);
    std::string text;
    for (int i = 0; i < max_tokens; ++i) {
      EXPECT_TRUE(matcher.FillMask(&mask));
      std::vector<TokenId> allowed;
      for (TokenId id = 0; id < tokenizer_->vocab_size(); ++id) {
        if (mask.allows(id)) allowed.push_back(id);
      }
      EXPECT_FALSE(allowed.empty()) << "after: " << text;
      if (allowed.empty()) return std::nullopt;
      // End soon where that is possible, so that most texts end.
      TokenId token = allowed[random() % allowed.size()];
      if (mask.allows(kToyStop) && random() % 4 == 0) token = kToyStop;
      EXPECT_TRUE(matcher.Accept(token));
      if (token == kToyStop) return text;
      EXPECT_FALSE(tokenizer_->IsSpecial(token));
      text += tokenizer_->TokenBytes(token);
    }
    return std::nullopt;
  }

  std::unique_ptr<text::Tokenizer> tokenizer_;
  const std::vector<TokenId> end_token_ids_ = {kToyStop};
  GrammarCompiler compiler_{*tokenizer_, end_token_ids_};
};

TEST_F(GrammarCompilerTest, WhatARegexAllowsTheStandardLibraryMatches) {
  for (const char* pattern :
       {"[0-9]{3}-[0-9]{4}", "(ab|cd)*e?", "a(b[0-9]{1,3})?c", "[0-5]\\d(\\.\\d{1,9})?Z",
        "[^a-y0-9 ]{1,3}", "the (and|aa)+", "\\w+@\\w+\\.com"}) {
    const Grammar grammar = MustCompileRegex(pattern);
    const std::regex expected(pattern);
    int num_texts = 0;
    for (uint32_t seed = 0; seed < 20; ++seed) {
      const std::optional<std::string> text = RandomText(grammar, seed, 60);
      if (!text) continue;
      ++num_texts;
      // The standard library's matches bytes, so it is not asked about other text.
      const bool is_ascii = std::ranges::all_of(*text, [](char c) { return c >= 0; });
      EXPECT_TRUE(!is_ascii || std::regex_match(*text, expected)) << pattern << ": " << *text;
    }
    EXPECT_GT(num_texts, 0) << pattern;
  }
}

// Tokens that end a repeat and begin what follows it ("th" after "t") are where the library erred.
TEST_F(GrammarCompilerTest, EveryTokenThatAMaskAllowsIsAcceptedAfterARepeatToo) {
  for (const char* pattern :
       {"t{2}[^a-t]V", "t+[^a-t]V", "(tu|t){1,3}[^h]x", "t{2}[^a-t]*V", "t{2}.V", "[at]{3}[^a-t]V",
        "t{2}[^h\xCE\xB1\xE4\xB8\x80]V", "t{2}[^h\xCE\xB1\xE4\xB8\x80]*V"}) {
    const Grammar grammar = MustCompileRegex(pattern);
    for (const std::string prefix : {"", "t", "tt", "ttu", "tt\xF0"}) {
      const auto matcher_after = [&](GrammarMatcher* matcher) {
        return std::ranges::all_of(prefix, [&](char c) {
          return matcher->Accept(text::testing::kToyFirstByte + static_cast<unsigned char>(c));
        });
      };
      GrammarMatcher matcher(grammar);
      if (!matcher_after(&matcher) || matcher.IsTerminated()) continue;
      TokenBitmask mask(tokenizer_->vocab_size());
      ASSERT_TRUE(matcher.FillMask(&mask));
      for (TokenId id = 0; id < tokenizer_->vocab_size(); ++id) {
        GrammarMatcher other(grammar);
        EXPECT_TRUE(matcher_after(&other));
        EXPECT_EQ(other.Accept(id), mask.allows(id))
            << pattern << " after " << prefix << ": " << tokenizer_->TokenBytes(id);
      }
    }
  }
}

TEST_F(GrammarCompilerTest, SurrogatesAreInNoClass) {
  for (const char* pattern : {"[^a]", "t{2}[^a-t]V", "[^a]*", "."}) {
    const Grammar grammar = MustCompileRegex(pattern);
    EXPECT_FALSE(Matches(grammar, "\xED\xA0\x80")) << pattern;
    EXPECT_FALSE(Matches(grammar, "tt\xED\xA0\x80V")) << pattern;
  }
}

TEST_F(GrammarCompilerTest, ARegexMatchesTheWholeText) {
  const Grammar grammar = MustCompileRegex("^ab?c$|x.");
  EXPECT_TRUE(Matches(grammar, "abc"));
  EXPECT_TRUE(Matches(grammar, "x\xC3\xA9"));
  EXPECT_FALSE(Matches(grammar, "x\n"));
  EXPECT_FALSE(Matches(grammar, "ab"));
  EXPECT_FALSE(Matches(grammar, "abcd"));
}

TEST_F(GrammarCompilerTest, AChoiceIsAnyTextAsItIs) {
  StructuredOutputs outputs;
  outputs.choice = {"yes", "say \"no\"\n\\d", "\xF0\x9F\x98\x80", "[a]*", "yes and"};
  const Grammar grammar = MustCompile(outputs);
  for (const std::string& text : outputs.choice) EXPECT_TRUE(Matches(grammar, text)) << text;
  for (const char* text : {"", "ye", "yesyes", "a", "say \"no\""}) {
    EXPECT_FALSE(Matches(grammar, text)) << text;
  }
}

TEST_F(GrammarCompilerTest, AGrammarDescribesNestedText) {
  StructuredOutputs outputs;
  outputs.grammar =
      "root ::= sum # with parentheses\nsum ::= term (\"+\" term)*\n"
      "term ::= [0-9]+ | \"(\" sum \")\"\n";
  const Grammar grammar = MustCompile(outputs);
  EXPECT_TRUE(Matches(grammar, "1+(22+(3))"));
  EXPECT_FALSE(Matches(grammar, "1+(22+(3)"));
}

TEST_F(GrammarCompilerTest, WhatASchemaAllowsIsJsonThatMatchesIt) {
  const Grammar grammar = MustCompileSchema(
      R"({"type":"object","properties":{"name":{"type":"string","maxLength":5},
          "age":{"type":"integer","minimum":0,"maximum":120},
          "tags":{"type":"array","items":{"enum":["a","b"]},"maxItems":3}},
          "required":["name","age"]})");
  int num_texts = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const std::optional<std::string> text = RandomText(grammar, seed, 120);
    if (!text) continue;
    boost::json::error_code error;
    const boost::json::value value = boost::json::parse(text::ReplaceInvalidUtf8(*text), error);
    ASSERT_FALSE(error) << *text << ": " << error.message();
    ++num_texts;
    const boost::json::object& object = value.as_object();
    EXPECT_TRUE(object.at("name").is_string());
    EXPECT_GE(object.at("age").as_int64(), 0);
    EXPECT_LE(object.at("age").as_int64(), 120);
    const auto* tags = object.if_contains("tags");
    EXPECT_TRUE(tags == nullptr || tags->as_array().size() <= 3u);
  }
  EXPECT_GT(num_texts, 10);
}

TEST_F(GrammarCompilerTest, ASchemaMeansWhatItsKeywordsSay) {
  struct Case {
    const char* schema;
    std::vector<const char*> matching, others;
  };
  const Case cases[] = {
      {R"({"type":"string","maxLength":2})",
       {R"("")", R"("é")", R"("ab")"},
       {R"("abc")", "\"a\tb\"", "\"\x01\"", "\"a\nb\"", R"("a)"}},
      {R"({"type":"string","pattern":"^a(b\\d{1,3})?.$"})",
       {R"("ax")", R"("ab12x")"},
       {R"("a1x")", R"("a"")", "\"a\t\"", R"("ab1234x")"}},
      {R"({"type":"number","minimum":-2.5,"exclusiveMaximum":7})",
       {"-2.5", "0", "6.999", "-0.1"},
       {"7", "7.5", "-2.6", "10"}},
      {R"({"type":"integer","exclusiveMinimum":9,"maximum":20})", {"10", "20"}, {"9", "21", "1e1"}},
      {R"({"type":"integer","multipleOf":7})", {"14", "0", "-7"}, {"13", "8"}},
      {R"({"type":"array","prefixItems":[{"type":"null"}],"items":{"type":"boolean"}})",
       {"[null]", "[null,true]", "[ null , false ]"},
       {"[true]", "[null,null]"}},
      {R"({"type":"array","minItems":2,"maxItems":3,"items":{"const":1}})",
       {"[1,1]", "[1,1,1]"},
       {"[1]", "[1,1,1,1]", "[]"}},
      {R"({"type":"object"})", {"{}", R"({"a":{"b":[1,"x"]}})"}, {"[]", "{1:2}", R"({"a"})"}},
      {R"({"properties":{"a":{"type":"integer"},"b":{"type":"null"}},"required":["b"]})",
       {R"({"a":1,"b":null})", R"({"b":null})"},
       {R"({"a":1})", R"({"b":null,"c":1})", "{}"}},
      {R"({"type":"object","patternProperties":{"^x_[a-z]+$":{"type":"integer"}}})",
       {R"({"x_a":1})", R"({"x_a":1,"x_b":2})", "{}"},
       {R"({"y":1})", R"({"x_a":"b"})"}},
      {R"({"type":"object","propertyNames":{"pattern":"^[a-z]{2}$"}})",
       {R"({"ab":1})"},
       {R"({"abc":1})"}},
      {R"({"type":"object","additionalProperties":{"type":"integer"},"minProperties":1})",
       {R"({"a":1})"},
       {"{}", R"({"a":"b"})"}},
      {R"({"type":["integer","null"]})", {"3", "null"}, {"true", "\"3\""}},
      {R"({"enum":["a\"b",1.5,{"k":[null]}]})",
       {R"("a\"b")", "1.5", R"({"k":[null]})"},
       {"1.50", R"("a")"}},
      {R"({"anyOf":[{"type":"string"},{"type":"null"}]})", {"\"x\\n\"", "null"}, {"1"}},
      {R"({"$ref":"#/$defs/n",
           "$defs":{"n":{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}}}}})",
       {R"({"n":{"n":{}}})"},
       {R"({"n":1})", R"({"m":{}})"}},
      {"{}", {"1", "\"a\"", "[{}]", "null"}, {"a"}},
  };
  for (const Case& one : cases) {
    const Grammar grammar = MustCompileSchema(one.schema);
    for (const char* text : one.matching) EXPECT_TRUE(Matches(grammar, text)) << one.schema << text;
    for (const char* text : one.others) EXPECT_FALSE(Matches(grammar, text)) << one.schema << text;
  }
}

TEST_F(GrammarCompilerTest, WhiteSpaceInJsonEnds) {
  const Grammar any = MustCompileSchema(R"({"type": "object"})");
  const Grammar fixed = MustCompileSchema(
      R"({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "number"}}}})");
  for (const Grammar& grammar : {any, fixed}) {
    for (const char* format : {"{{{}\"a\": [1, 2]}}", "{{\"a\":{}[1, 2]}}", "{{\"a\": [1,{}2]}}",
                               "{{\"a\": [1, 2]{}}}"}) {
      const auto with = [&](const std::string& space) {
        return fmt::format(fmt::runtime(format), space);
      };
      EXPECT_TRUE(Matches(grammar, with(""))) << format;
      EXPECT_TRUE(Matches(grammar, with("\n" + std::string(15, ' ')))) << format;
      EXPECT_FALSE(Matches(grammar, with("\n" + std::string(16, ' ')))) << format;
    }
  }
}

TEST_F(GrammarCompilerTest, FormatsAreWhatTheyAreCalled) {
  const struct {
    const char* format;
    const char* matching;
    const char* other;
  } cases[] = {{"date", "2024-02-28", "2024-02-30"},
               {"time", "23:59:59.5Z", "24:00:00Z"},
               {"date-time", "2024-12-31T00:00:00+01:00", "2024-12-31"},
               {"duration", "P1Y2M3DT4H5M6S", "P"},
               {"email", "first.last@example.com", "first@"},
               {"hostname", "a-b.example", "-a"},
               {"ipv4", "255.0.10.199", "256.0.0.1"},
               {"ipv6", "fe80::1", "fe80:::1"},
               {"uri", "https://example.com:80/a?b#c", "example.com"},
               {"uuid", "123e4567-e89b-12d3-a456-426614174000", "123e4567"}};
  for (const auto& one : cases) {
    const Grammar grammar =
        MustCompileSchema(R"({"type":"string","format":")" + std::string(one.format) + "\"}");
    EXPECT_TRUE(Matches(grammar, '"' + std::string(one.matching) + '"')) << one.format;
    EXPECT_FALSE(Matches(grammar, '"' + std::string(one.other) + '"')) << one.format;
  }
}

TEST_F(GrammarCompilerTest, WarnsOfNothingButRefuses) {
  StructuredOutputs outputs;
  outputs.json = R"({"oneOf":[{"type":"number"},{"type":"integer"}]})";
  const Result<Grammar> grammar = compiler_.Compile(outputs);
  ASSERT_FALSE(grammar.ok());
  EXPECT_EQ(grammar.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(grammar.status().message(), testing::HasSubstr("oneOf"));
}

TEST_F(GrammarCompilerTest, OnlyTheEndMayFollowAWholeText) {
  GrammarMatcher matcher(MustCompileRegex("ab"));
  TokenBitmask mask(tokenizer_->vocab_size());
  ASSERT_TRUE(matcher.AcceptBytes("ab"));
  EXPECT_TRUE(matcher.IsCompleted());
  ASSERT_TRUE(matcher.FillMask(&mask));
  for (TokenId id = 0; id < tokenizer_->vocab_size(); ++id) {
    EXPECT_EQ(mask.allows(id), id == kToyStop) << id;
    EXPECT_TRUE(id == kToyStop || !matcher.Accept(id)) << id;
  }
  EXPECT_TRUE(matcher.Accept(kToyStop));
  EXPECT_TRUE(matcher.IsTerminated());
}

// The readings of such a text grow with the cube of its length.
TEST_F(GrammarCompilerTest, AnAmbiguousOutputEndsBeforeItCostsTooMuch) {
  StructuredOutputs outputs;
  outputs.grammar = "root ::= s \"!\"\ns ::= \"a\" | \"a\" s | \"a\" s s | \"a\" s s s";
  GrammarMatcher matcher(MustCompile(outputs));
  TokenBitmask mask(tokenizer_->vocab_size());
  const TokenId a = text::testing::kToyFirstByte + 'a';
  int num_tokens = 0;
  while (num_tokens < 5000 && matcher.FillMask(&mask)) {
    ASSERT_TRUE(mask.allows(a));
    ASSERT_TRUE(matcher.Accept(a));
    ++num_tokens;
  }
  EXPECT_GT(num_tokens, 20);
  EXPECT_LT(num_tokens, 5000);
}

TEST_F(GrammarCompilerTest, TheOutputsOfARequestShareWhatItMayCost) {
  GrammarMatcher matcher(MustCompileRegex("a*"), 1 << 30);
  TokenBitmask mask(tokenizer_->vocab_size());
  EXPECT_TRUE(matcher.FillMask(&mask));
  EXPECT_FALSE(matcher.FillMask(&mask));  // its share is less than one mask costs
}

TEST_F(GrammarCompilerTest, MatchersOfOneGrammarAreIndependent) {
  const Grammar grammar = MustCompileRegex("a*|b*");
  GrammarMatcher first(grammar), second(grammar);
  ASSERT_TRUE(first.AcceptBytes("aa"));
  EXPECT_TRUE(second.AcceptBytes("b"));
  EXPECT_FALSE(first.AcceptBytes("b"));
  EXPECT_TRUE(first.AcceptBytes("a"));
}

TEST_F(GrammarCompilerTest, KnowsWhatItHolds) {
  StructuredOutputs outputs;
  outputs.regex = "a+c";
  EXPECT_FALSE(compiler_.Holds(outputs));
  MustCompile(outputs);
  EXPECT_TRUE(compiler_.Holds(outputs));
  outputs.regex = "a++c";  // refused
  EXPECT_FALSE(compiler_.Holds(outputs));
}

TEST_F(GrammarCompilerTest, RemembersWhatItCompiled) {
  const Grammar first = MustCompileRegex("a+b");
  EXPECT_GT(compiler_.cached_bytes(), 0);
  EXPECT_EQ(MustCompileRegex("a+b"), first);
  EXPECT_EQ(MustCompileRegex("a{1,}b"), first);  // the same in another spelling
  EXPECT_NE(MustCompileRegex("a+c"), first);
}

TEST_F(GrammarCompilerTest, ServesManyThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 10; ++i) {
        const Grammar grammar = MustCompileRegex("x{" + std::to_string(1 + (t + i) % 4) + "}");
        ASSERT_NE(grammar, nullptr);
        EXPECT_TRUE(Matches(grammar, std::string(static_cast<size_t>(1 + (t + i) % 4), 'x')));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(GrammarCompilerTest, GivesUpOnWhatTakesTooLong) {
  CompilerOptions options;
  options.time_limit = std::chrono::milliseconds(0);
  GrammarCompiler hasty(*tokenizer_, end_token_ids_, options);
  StructuredOutputs outputs;
  outputs.regex = ".{0,128}x{0,9000}";
  const Result<Grammar> first = hasty.Compile(outputs);
  ASSERT_FALSE(first.ok());
  EXPECT_EQ(first.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(first.status().message(), testing::HasSubstr("not compiled within 0 ms"));
}

TEST(GrammarCacheTest, KeepsWhatWasUsedLastWithinItsBytes) {
  GrammarCache cache(100);
  cache.Put("a", nullptr, 40);
  cache.Put("b", nullptr, 40);
  EXPECT_EQ(cache.bytes(), 80);
  cache.Find("a");
  cache.Put("c", nullptr, 40);
  EXPECT_EQ(cache.bytes(), 80);
  EXPECT_TRUE(cache.Contains("a"));
  EXPECT_FALSE(cache.Contains("b"));
  cache.Put("d", nullptr, 101);
  EXPECT_FALSE(cache.Contains("d"));
}

TEST(TokenBitmaskTest, MasksARowWhoseLengthIsNoMultipleOf32) {
  TokenBitmask mask(35);
  std::ranges::fill(mask.words(), UINT32_MAX);
  mask.Forbid(0);
  mask.Forbid(33);
  std::vector<float> logits(35, 1.0f);
  mask.ApplyTo(logits);
  for (TokenId id = 0; id < 35; ++id) {
    EXPECT_EQ(logits[static_cast<size_t>(id)] == 1.0f, id != 0 && id != 33) << id;
    EXPECT_EQ(mask.allows(id), id != 0 && id != 33) << id;
  }
}

}  // namespace
}  // namespace octavo::structured
