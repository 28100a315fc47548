#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <vector>

#include "text/text_test_util.h"

namespace octavo::text {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Made;
using testing::ToyBpe;
using testing::ToySpm;

constexpr EncodeOptions kPlain = {.add_special = false, .parse_special = false};
constexpr EncodeOptions kParse = {.add_special = false, .parse_special = true};

std::vector<TokenId> Ids(const Tokenizer& tokenizer, std::string_view text,
                         const EncodeOptions& options = kPlain) {
  Result<std::vector<TokenId>> ids = tokenizer.Encode(text, options);
  EXPECT_TRUE(ids.ok()) << ids.status().message();
  return ids.ok() ? *ids : std::vector<TokenId>{};
}

TokenId Id(const Tokenizer& tokenizer, std::string_view spelling) {
  const std::optional<TokenId> id = tokenizer.FindToken(spelling);
  EXPECT_TRUE(id.has_value()) << spelling;
  return id.value_or(kNoToken);
}

TEST(BpeTokenizerTest, MergesInsideWordsOnly) {
  const auto tokenizer = Made(ToyBpe());

  EXPECT_THAT(Ids(*tokenizer, "the and"), ElementsAre(Id(*tokenizer, "the"), Id(*tokenizer,
                                                                                "\xC4\xA0"
                                                                                "and")));
  EXPECT_THAT(Ids(*tokenizer, "aaaa"), ElementsAre(Id(*tokenizer, "aaaa")));
  EXPECT_THAT(Ids(*tokenizer, ""), IsEmpty());
}

TEST(BpeTokenizerTest, WholeWordBeatsMergesWhereThePreTokenizerSaysSo) {
  VocabularyData data = ToyBpe("llama-bpe");
  data.tokens.push_back("anen");  // no merge leads here
  data.token_types.push_back(1);
  const auto whole = Made(data);
  data.pre = "gpt-2";
  const auto merged = Made(data);

  EXPECT_THAT(Ids(*whole, "anen"), ElementsAre(Id(*whole, "anen")));
  EXPECT_THAT(Ids(*merged, "anen"), ElementsAre(Id(*merged, "an"), Id(*merged, "en")));
}

std::vector<TokenId> TrustedIds(const Tokenizer& tokenizer, std::string_view text,
                                const std::vector<jinja::ByteRange>& trusted) {
  const Result<std::vector<TokenId>> ids = tokenizer.EncodeTrusted(text, trusted);
  EXPECT_TRUE(ids.ok()) << ids.status().message();
  return ids.ok() ? *ids : std::vector<TokenId>{};
}

TEST(BpeTokenizerTest, SpecialTokensAreParsedInTrustedBytesOnly) {
  const auto tokenizer = Made(ToyBpe());
  const std::string text = "<|im_start|><|im_start|>";

  EXPECT_THAT(TrustedIds(*tokenizer, text, {{0, 24}}),
              ElementsAre(testing::kToyStart, testing::kToyStart));
  EXPECT_EQ(TrustedIds(*tokenizer, text, {}), Ids(*tokenizer, text));
  for (const auto& [begin, end] : {std::pair<size_t, size_t>{0, 23}, {0, 12}, {0, 13}}) {
    std::vector<TokenId> expected = {testing::kToyStart};
    const std::vector<TokenId> rest = Ids(*tokenizer, "<|im_start|>");
    expected.insert(expected.end(), rest.begin(), rest.end());
    EXPECT_EQ(TrustedIds(*tokenizer, text, {{begin, end}}), expected) << end;
  }
  // A spelling that crosses the border, on either side, is text.
  EXPECT_EQ(TrustedIds(*tokenizer, text, {{1, 11}, {13, 24}}), Ids(*tokenizer, text));
}

TEST(BpeTokenizerTest, UserDefinedTokensAndMergesGoAcrossTheBorderOfTrust) {
  const auto tokenizer = Made(ToyBpe());

  EXPECT_THAT(TrustedIds(*tokenizer, "<tool>the", {{2, 7}}),
              ElementsAre(testing::kToyUser, Id(*tokenizer, "the")));
  EXPECT_EQ(TrustedIds(*tokenizer, "the and aaaa", {{1, 5}, {9, 10}}),
            Ids(*tokenizer, "the and aaaa"));
}

TEST(BpeTokenizerTest, TrustedTextGivesTheIdsOfParsedText) {
  const auto tokenizer = Made(ToyBpe());
  rc::check("any pieces, all trusted or none", [&] {
    const auto pieces = *rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
        "<|im_start|>", "<|im_end|>", "<tool>", "the ", "<|im_", "end|>", "a", "\n"));
    std::string text;
    for (const std::string& piece : pieces) text += piece;
    const std::vector<jinja::ByteRange> all = {{0, text.size()}};
    RC_ASSERT(*tokenizer->EncodeTrusted(text, all) == *tokenizer->Encode(text, kParse));
    RC_ASSERT(*tokenizer->EncodeTrusted(text, {}) == *tokenizer->Encode(text, kPlain));
  });
}

TEST(BpeTokenizerTest, SpecialTokensAreParsedOnlyOnRequest) {
  const auto tokenizer = Made(ToyBpe());
  const std::string text = "<|im_start|>the<|im_end|>";

  EXPECT_THAT(Ids(*tokenizer, text, kParse),
              ElementsAre(testing::kToyStart, Id(*tokenizer, "the"), testing::kToyStop));
  for (const TokenId id : Ids(*tokenizer, text, kPlain)) EXPECT_FALSE(tokenizer->IsSpecial(id));
  EXPECT_EQ(tokenizer->Decode(Ids(*tokenizer, text, kPlain), true), text);
}

TEST(BpeTokenizerTest, UserDefinedTokensAreAlwaysParsed) {
  const auto tokenizer = Made(ToyBpe());

  EXPECT_THAT(Ids(*tokenizer, "the<tool>the"),
              ElementsAre(Id(*tokenizer, "the"), testing::kToyUser, Id(*tokenizer, "the")));
  EXPECT_FALSE(tokenizer->IsSpecial(testing::kToyUser));
}

TEST(BpeTokenizerTest, NoMergeMakesAControlToken) {
  VocabularyData data = ToyBpe();
  data.tokens.push_back("th<");
  data.token_types.push_back(3);
  data.merges.push_back("th <");
  data.pre = "deepseek-v3";
  const auto tokenizer = Made(data);

  for (const TokenId id : Ids(*tokenizer, "th<")) EXPECT_FALSE(tokenizer->IsSpecial(id));
}

TEST(BpeTokenizerTest, AddsTheTokensThatTheMetadataWants) {
  VocabularyData data = ToyBpe();
  EXPECT_THAT(Ids(*Made(data), "a", {.add_special = true}),
              ElementsAre(testing::kToyFirstByte + 'a'));
  data.add_bos = true;
  data.add_eos = true;
  EXPECT_THAT(Ids(*Made(data), "a", {.add_special = true}),
              ElementsAre(testing::kToyStart, testing::kToyFirstByte + 'a', testing::kToyStop));
  EXPECT_THAT(Ids(*Made(data), "", {.add_special = true}),
              ElementsAre(testing::kToyStart, testing::kToyStop));
  EXPECT_THAT(Ids(*Made(data), "a", kPlain), ElementsAre(testing::kToyFirstByte + 'a'));

  VocabularyData llama = ToyBpe("llama-bpe");
  EXPECT_EQ(Ids(*Made(llama), "a", {.add_special = true}).front(), testing::kToyStart);
  llama.bos_id.reset();
  EXPECT_THAT(Ids(*Made(llama), "a", {.add_special = true}),
              ElementsAre(testing::kToyFirstByte + 'a'));
}

TEST(BpeTokenizerTest, TokensAreFoundAndDescribed) {
  const auto tokenizer = Made(ToyBpe());

  EXPECT_EQ(tokenizer->FindToken("<|im_end|>"), testing::kToyStop);
  EXPECT_EQ(tokenizer->FindToken("no such token"), std::nullopt);
  EXPECT_EQ(tokenizer->TokenBytes(testing::kToyStop), "<|im_end|>");
  EXPECT_EQ(tokenizer->TokenBytes(testing::kToyFirstByte + 0), std::string_view("\0", 1));
  EXPECT_EQ(tokenizer->TokenBytes(Id(*tokenizer, "\xC4\xA0the")), " the");
  EXPECT_TRUE(tokenizer->IsSpecial(testing::kToyStop));
  EXPECT_TRUE(tokenizer->IsEndOfGeneration(testing::kToyStop));
  EXPECT_TRUE(tokenizer->IsEndOfGeneration(testing::kToyEnd));
  EXPECT_FALSE(tokenizer->IsEndOfGeneration(testing::kToyStart));
  EXPECT_EQ(tokenizer->bos_id(), testing::kToyStart);
  EXPECT_EQ(tokenizer->eos_id(), testing::kToyStop);
  EXPECT_GT(tokenizer->memory_bytes(), 4096);
}

TEST(BpeTokenizerTest, DecodeSkipsSpecialTokensOnRequest) {
  const auto tokenizer = Made(ToyBpe());
  const std::vector<TokenId> ids = {testing::kToyStart, Id(*tokenizer, "the"), testing::kToyUser,
                                    testing::kToyStop};

  EXPECT_EQ(tokenizer->Decode(ids, true), "the<tool>");
  EXPECT_EQ(tokenizer->Decode(ids, false), "<|im_start|>the<tool><|im_end|>");
}

TEST(BpeTokenizerTest, EndOfTurnTokensAreControlTokensWhateverTheFileCallsThem) {
  VocabularyData data = ToyBpe();
  data.token_types[testing::kToyStop] = 4;
  data.token_types[testing::kToyStart] = 4;
  data.token_types[testing::kToyEnd] = 1;
  const auto tokenizer = Made(data);

  for (const TokenId id : {testing::kToyStop, testing::kToyStart, testing::kToyEnd}) {
    EXPECT_TRUE(tokenizer->IsSpecial(id));
  }
  for (const TokenId id : Ids(*tokenizer, "<|im_end|>")) EXPECT_NE(id, testing::kToyStop);
}

TEST(BpeTokenizerTest, HarmonyVocabulariesDoNotEndAtEndOfMessage) {
  VocabularyData data = ToyBpe();
  data.tokens[testing::kToyUser] = "<|end|>";
  EXPECT_TRUE(Made(data)->IsEndOfGeneration(testing::kToyUser));
  for (const char* token : {"<|return|>", "<|call|>"}) {
    data.tokens.push_back(token);
    data.token_types.push_back(3);
  }
  const auto tokenizer = Made(data);
  EXPECT_FALSE(tokenizer->IsEndOfGeneration(testing::kToyUser));
  EXPECT_TRUE(tokenizer->IsEndOfGeneration(Id(*tokenizer, "<|return|>")));
}

TEST(BpeTokenizerTest, AVocabularyWithoutPreTokenizerWarns) {
  EXPECT_THAT(Made(ToyBpe(""))->warning(), ::testing::HasSubstr("tokenizer.ggml.pre"));
  EXPECT_THAT(Made(ToyBpe("default"))->warning(), ::testing::HasSubstr("tokenizer.ggml.pre"));
  EXPECT_EQ(Made(ToyBpe("gpt-2"))->warning(), "");
}

TEST(SpmTokenizerTest, MergesByScoreAfterASpaceInFront) {
  const auto tokenizer = Made(ToySpm());
  const std::string mark = "\xE2\x96\x81";

  EXPECT_THAT(Ids(*tokenizer, "the"), ElementsAre(Id(*tokenizer, mark + "the")));
  EXPECT_THAT(Ids(*tokenizer, "there"),
              ElementsAre(Id(*tokenizer, mark + "the"), Id(*tokenizer, "r"), Id(*tokenizer, "e")));
  EXPECT_THAT(Ids(*tokenizer, "x\xC3\xA9"),
              ElementsAre(Id(*tokenizer, mark), 3 + 'x', Id(*tokenizer, "\xC3\xA9")));
  EXPECT_THAT(Ids(*tokenizer, ""), IsEmpty());
  EXPECT_EQ(tokenizer->Decode(Ids(*tokenizer, "the"), true), "the");
  EXPECT_EQ(tokenizer->Decode(Ids(*tokenizer, " the"), true), " the");
  EXPECT_EQ(tokenizer->TokenBytes(Id(*tokenizer, mark + "the")), " the");
}

TEST(SpmTokenizerTest, AddsBeginningOfTextByDefault) {
  const auto tokenizer = Made(ToySpm());

  EXPECT_EQ(Ids(*tokenizer, "the", {.add_special = true}).front(), 1);
  EXPECT_EQ(tokenizer->Decode(Ids(*tokenizer, "the", {.add_special = true}), true), "the");
  EXPECT_EQ(tokenizer->Decode(Ids(*tokenizer, "the", {.add_special = true}), false), "<s> the");
}

TEST(SpmTokenizerTest, WithoutSpacePrefixTheTextIsTakenAsItIs) {
  VocabularyData data = ToySpm();
  data.add_space_prefix = false;
  const auto tokenizer = Made(data);

  EXPECT_THAT(Ids(*tokenizer, "the"), ElementsAre(Id(*tokenizer, "t"), Id(*tokenizer, "he")));
  EXPECT_EQ(tokenizer->Decode(Ids(*tokenizer, " the"), true), " the");
}

TEST(SpmTokenizerTest, UnusedTokensAreTakenApartAgain) {
  VocabularyData data = ToySpm();
  data.add_space_prefix = false;
  data.token_types.back() = 1;
  const auto id_of = [&](std::string_view spelling) {
    return static_cast<size_t>(Id(*Made(data), spelling));
  };
  data.token_types[id_of("he")] = 5;
  const auto tokenizer = Made(data);

  EXPECT_THAT(Ids(*tokenizer, "he"), ElementsAre(Id(*tokenizer, "h"), Id(*tokenizer, "e")));
  EXPECT_THAT(Ids(*tokenizer, " the"), ElementsAre(Id(*tokenizer, "\xE2\x96\x81the")));
}

TEST(SpmTokenizerTest, AByteThatHasNoTokenBecomesTheUnknownToken) {
  VocabularyData data = ToySpm();
  data.tokens[3 + 'x'] = "<0x00>";
  const auto tokenizer = Made(data);

  EXPECT_THAT(Ids(*tokenizer, "x"), ElementsAre(Id(*tokenizer, "\xE2\x96\x81"), 0));
}

std::string RandomBytes() {
  const auto any = rc::gen::container<std::string>(rc::gen::arbitrary<char>());
  const auto near = rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
      "the", " ", "  ", "\n", "1", "<|im_start|>", "<|im_end", "<tool>", "\xF0\x9F\x98\x80",
      "\xF0\x9F", "\xC3\xA9", "\xE3\x80\x80", "'s", "\xFF", "aaaa", "\xE4\xB8\xAD", "<s>",
      "<0x41>"));
  if (*rc::gen::arbitrary<bool>()) return *any;
  std::string text;
  for (const std::string& part : *near) text += part;
  return text;
}

TEST(TokenizerPropertyTest, AnyBytesComeBackFromTheirTokens) {
  std::vector<std::unique_ptr<Tokenizer>> tokenizers;
  for (const char* pre :
       {"smollm", "gpt-2", "llama-bpe", "deepseek-llm", "deepseek-v3", "gpt-4o"}) {
    tokenizers.push_back(Made(ToyBpe(pre)));
  }
  tokenizers.push_back(Made(ToySpm()));
  const bool held = rc::check("bytes in = bytes out", [&] {
    const std::string text = RandomBytes();
    for (const auto& tokenizer : tokenizers) {
      const Result<std::vector<TokenId>> ids = tokenizer->Encode(text, kPlain);
      RC_ASSERT(ids.ok());
      RC_ASSERT(tokenizer->Decode(*ids, false) == text);
      for (const TokenId id : *ids) RC_ASSERT(!tokenizer->IsSpecial(id));
    }
    const Result<std::vector<TokenId>> parsed = tokenizers[0]->Encode(text, kParse);
    RC_ASSERT(parsed.ok());
    RC_ASSERT(tokenizers[0]->Decode(*parsed, false) == text);
  });
  EXPECT_TRUE(held);
}

// A quadratic step anywhere would need so long for some of these that the test never ends.
TEST(TokenizerCostTest, LongRunsOfAnythingAreEncodedAtAll) {
  const std::pair<const char*, std::string> units[] = {{"letters", "a"},
                                                       {"spaces", " "},
                                                       {"digits", "7"},
                                                       {"emoji", "\xF0\x9F\x98\x80"},
                                                       {"near misses", "<|im_start|"},
                                                       {"words", "the and "},
                                                       {"line feeds", "\n"},
                                                       {"invalid bytes", "\xFF"},
                                                       {"punctuation", "!"},
                                                       {"capitals", "A"},
                                                       {"ideographs", "\xE4\xB8\xAD"},
                                                       {"specials", "<|im_end|>"}};
  std::vector<std::unique_ptr<Tokenizer>> tokenizers;
  for (const char* pre : {"smollm", "llama-bpe", "qwen35", "deepseek-llm", "deepseek-coder",
                          "deepseek-v3", "falcon", "tekken", "gpt-4o", "default"}) {
    tokenizers.push_back(Made(ToyBpe(pre)));
  }
  tokenizers.push_back(Made(ToySpm()));
  for (const auto& [name, unit] : units) {
    std::string text;
    while (text.size() < (1 << 18)) text += unit;
    text += "1x";  // something after a run, so that lookahead at its end fails
    for (const auto& tokenizer : tokenizers) {
      EXPECT_GT(Ids(*tokenizer, text, kParse).size(), 0u) << name;
    }
  }
}

}  // namespace
}  // namespace octavo::text
