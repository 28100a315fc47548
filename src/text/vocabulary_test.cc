// Metadata that contradicts itself is refused with a message that names the key and the limit.

#include "text/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "formats/gguf_builder.h"
#include "formats/gguf_file.h"
#include "text/text_test_util.h"
#include "text/tokenizer_factory.h"

namespace octavo::text {
namespace {

using ::testing::HasSubstr;
using testing::ToyBpe;
using testing::ToySpm;

void ExpectRefused(const VocabularyData& data, std::string_view message,
                   StatusCode code = StatusCode::kDataLoss) {
  const Result<std::unique_ptr<Tokenizer>> tokenizer = MakeTokenizer(data);
  EXPECT_EQ(tokenizer.status().code(), code) << message;
  EXPECT_THAT(tokenizer.status().message(), HasSubstr(message));
}

TEST(VocabularyTest, RefusesAnEmptyVocabulary) {
  ExpectRefused(VocabularyData{}, "tokenizer.ggml.tokens is empty");
}

TEST(VocabularyTest, RefusesIdsOutsideTheVocabulary) {
  VocabularyData data = ToyBpe();
  const uint64_t size = data.tokens.size();
  const std::string limit = ", outside the vocabulary of " + std::to_string(size) + " tokens";
  data.bos_id = size;
  ExpectRefused(data, "tokenizer.ggml.bos_token_id is " + std::to_string(size) + limit);
  data = ToyBpe();
  data.eos_id = std::numeric_limits<uint64_t>::max();
  ExpectRefused(data, "tokenizer.ggml.eos_token_id is 18446744073709551615" + limit);
  data = ToyBpe();
  data.eot_id = size;
  ExpectRefused(data, "eot_token_id");
  data = ToyBpe();
  data.eom_id = size;
  ExpectRefused(data, "eom_token_id");
  data = ToyBpe();
  data.unknown_id = size;
  ExpectRefused(data, "unknown_token_id");
}

TEST(VocabularyTest, RefusesArraysOfAnotherLength) {
  VocabularyData data = ToyBpe();
  data.token_types.pop_back();
  ExpectRefused(data, "tokenizer.ggml.token_type has");
  data = ToySpm();
  data.scores.push_back(0.0f);
  ExpectRefused(data, "tokenizer.ggml.scores has");
}

TEST(VocabularyTest, RefusesTypesAndScoresWithoutMeaning) {
  VocabularyData data = ToyBpe();
  data.token_types[7] = 0;
  ExpectRefused(data, "tokenizer.ggml.token_type[7] is 0; it must be 1 to 6");
  data.token_types[7] = 7;
  ExpectRefused(data, "tokenizer.ggml.token_type[7] is 7");
  data = ToySpm();
  data.scores[5] = std::numeric_limits<float>::quiet_NaN();
  ExpectRefused(data, "tokenizer.ggml.scores[5] is not a number");
}

TEST(VocabularyTest, RefusesMergesThatDoNotParseOrNameUnknownTokens) {
  for (const char* merge : {"", "a", " a", "a ", "  "}) {
    VocabularyData data = ToyBpe();
    data.merges.push_back(merge);
    ExpectRefused(data, "it must be two tokens with a space between them");
  }
  VocabularyData data = ToyBpe();
  data.merges = {"t h", "t zz"};
  ExpectRefused(data, "tokenizer.ggml.merges[1] is \"t zz\": \"zz\" is not in the vocabulary");
  data.merges = {"h t"};
  ExpectRefused(data, "\"ht\" is not in the vocabulary");
}

TEST(VocabularyTest, RefusesOverlongTokens) {
  VocabularyData data = ToyBpe();
  data.tokens[300 - 40] = std::string(kMaxTokenBytes + 1, 'x');
  ExpectRefused(data, "65537 bytes long; the limit is 65536");
  data = ToyBpe();
  data.tokens[testing::kToyUser] = std::string(kMaxSpecialBytes + 1, 'x');
  ExpectRefused(data, "is special and 1025 bytes long; the limit is 1024");
}

TEST(VocabularyTest, RefusesMisspelledByteTokens) {
  for (const char* spelling : {"", "<0x0>", "<0x0G>", "<0xab>", "0x41", "<0x041>"}) {
    VocabularyData data = ToySpm();
    data.tokens[3] = spelling;
    ExpectRefused(data, "but a byte token is spelled");
  }
}

TEST(VocabularyTest, RefusesAddedTokensThatDoNotExist) {
  VocabularyData data = ToyBpe();
  data.bos_id.reset();
  data.add_bos = true;
  ExpectRefused(data, "tokenizer.ggml.bos_token_id is absent");
  data = ToyBpe();
  data.eos_id.reset();
  data.add_eos = true;
  ExpectRefused(data, "tokenizer.ggml.eos_token_id is absent");
}

TEST(VocabularyTest, NamesAnUnknownPreTokenizer) {
  ExpectRefused(ToyBpe("no-such\n"), "tokenizer.ggml.pre is \"no-such\\n\"",
                StatusCode::kUnimplemented);
}

TEST(VocabularyTest, EqualSpellingsGoToTheLowestId) {
  VocabularyData data = ToyBpe();
  data.tokens.push_back("the");
  data.token_types.push_back(1);
  const auto tokenizer = testing::Made(data);
  EXPECT_LT(*tokenizer->FindToken("the"), tokenizer->vocab_size() - 1);
}

// --- From a file ---

formats::GgufBuilder File(const VocabularyData& data, const char* model) {
  formats::GgufBuilder builder;
  builder.String("general.architecture", "llama").String("tokenizer.ggml.model", model);
  builder.Strings("tokenizer.ggml.tokens", data.tokens);
  return builder;
}

Status LoadStatus(const formats::GgufBuilder& builder) {
  const std::vector<std::byte> bytes = builder.Build();
  const Result<formats::GgufFile> file = formats::GgufFile::FromBytes(bytes, "toy.gguf");
  EXPECT_TRUE(file.ok()) << file.status().message();
  return LoadTokenizer(*file).status();
}

TEST(LoadTokenizerTest, ReadsEveryKey) {
  const VocabularyData data = ToyBpe();
  formats::GgufBuilder builder = File(data, "gpt2");
  builder.String("tokenizer.ggml.pre", "smollm")
      .Int32s("tokenizer.ggml.token_type", data.token_types)
      .Strings("tokenizer.ggml.merges", data.merges)
      .Uint32("tokenizer.ggml.bos_token_id", 0)
      .Uint32("tokenizer.ggml.eos_token_id", 2)
      .Uint32("tokenizer.ggml.eot_token_id", 5)
      .Uint32("tokenizer.ggml.eom_token_id", 6)
      .Uint32("tokenizer.ggml.unknown_token_id", 0)
      .Bool("tokenizer.ggml.add_bos_token", true)
      .Bool("tokenizer.ggml.add_eos_token", true)
      .Bool("tokenizer.ggml.add_space_prefix", true);
  const std::vector<std::byte> bytes = builder.Build();
  const Result<formats::GgufFile> file = formats::GgufFile::FromBytes(bytes);
  ASSERT_TRUE(file.ok()) << file.status().message();

  const Result<std::unique_ptr<Tokenizer>> tokenizer = LoadTokenizer(*file);

  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  const Result<std::vector<TokenId>> ids = (*tokenizer)->Encode("the");
  ASSERT_TRUE(ids.ok());
  EXPECT_THAT(*ids, ::testing::ElementsAre(0, *(*tokenizer)->FindToken("the"), 2));
  EXPECT_TRUE((*tokenizer)->IsEndOfGeneration(5));
  EXPECT_TRUE((*tokenizer)->IsEndOfGeneration(6));
  EXPECT_FALSE((*tokenizer)->adds_space_prefix());
  EXPECT_EQ((*tokenizer)->warning(), "");
}

TEST(LoadTokenizerTest, RefusesMissingKeysAndForeignModels) {
  EXPECT_THAT(LoadStatus(formats::GgufBuilder().String("general.architecture", "llama")).message(),
              HasSubstr("tokenizer.ggml.model"));
  const Status foreign = LoadStatus(File(ToyBpe(), "t5"));
  EXPECT_EQ(foreign.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(foreign.message(), HasSubstr("tokenizer.ggml.model is \"t5\""));
  EXPECT_THAT(LoadStatus(formats::GgufBuilder().String("tokenizer.ggml.model", "gpt2")).message(),
              HasSubstr("toy.gguf: tokenizer.ggml.tokens"));
  EXPECT_THAT(LoadStatus(File(ToySpm(), "llama")).message(), HasSubstr("tokenizer.ggml.scores"));
}

TEST(LoadTokenizerTest, RefusesValuesOfAnotherType) {
  const VocabularyData data = ToyBpe();
  const std::vector<float> floats(data.tokens.size(), 1.0f);
  const std::vector<int32_t> ints(data.tokens.size(), 1);
  const auto expect = [](const formats::GgufBuilder& builder, const char* key) {
    const Status status = LoadStatus(builder);
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << key;
    EXPECT_THAT(status.message(), HasSubstr(key));
  };
  expect(File(data, "gpt2").Floats("tokenizer.ggml.token_type", floats), "token_type");
  expect(File(data, "gpt2").Int32s("tokenizer.ggml.token_type", {}), "token_type");
  expect(File(data, "gpt2").Int32s("tokenizer.ggml.merges", ints), "merges");
  expect(File(data, "llama").Int32s("tokenizer.ggml.scores", ints), "scores");
  expect(File(data, "gpt2").Uint32("tokenizer.ggml.pre", 1), "pre");
  expect(File(data, "gpt2").String("tokenizer.ggml.bos_token_id", "1"), "bos_token_id");
  expect(File(data, "gpt2").Int32("tokenizer.ggml.eos_token_id", -1), "eos_token_id");
  expect(File(data, "gpt2").Uint32("tokenizer.ggml.add_bos_token", 1), "add_bos_token");
}

}  // namespace
}  // namespace octavo::text
