// Token ids against independent implementations: Hugging Face's tokenizers (tests/golden/text, made
// by tests/tools/make_text_golden.py) and the vectors published with the vocabulary files.

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "formats/gguf_file.h"
#include "text/pretokenizer.h"
#include "text/text_test_util.h"
#include "text/tokenizer.h"

namespace octavo::text {
namespace {

using testing::FromHex;
using testing::Numbers;

TEST(TokenizerGoldenTest, EveryPreTokenizerCutsAsHuggingFaceDoes) {
  std::map<std::string, int> num_texts;
  for (const auto& record : testing::ReadGolden("pretokenizers.txt")) {
    const std::string text = FromHex(record.at(1));
    const Result<const PreTokenizerSpec*> spec = FindPreTokenizerSpec(record.at(0));
    ASSERT_TRUE(spec.ok());
    const Result<PreTokenizer> pre_tokenizer = PreTokenizer::Make(**spec);
    ASSERT_TRUE(pre_tokenizer.ok()) << pre_tokenizer.status().message();

    std::vector<std::string_view> pieces;
    ASSERT_TRUE(pre_tokenizer->Split(text, &pieces).ok());

    std::vector<int32_t> lengths;
    std::string joined;
    for (const std::string_view piece : pieces) {
      lengths.push_back(static_cast<int32_t>(piece.size()));
      joined += piece;
    }
    EXPECT_EQ(lengths, Numbers(record.at(2))) << record.at(0) << ": " << text;
    EXPECT_EQ(joined, text);
    ++num_texts[record.at(0)];
  }
  EXPECT_EQ(num_texts.size(), 12u);
}

TEST(TokenizerGoldenTest, SmallTrainedVocabularyGivesHuggingFaceIds) {
  VocabularyData data;
  std::map<std::string, std::unique_ptr<Tokenizer>> tokenizers;
  size_t num_texts = 0;
  for (const auto& record : testing::ReadGolden("bpe.txt")) {
    if (record[0] == "token") {
      data.tokens.push_back(FromHex(record.at(1)));
      data.token_types.push_back(data.tokens.size() <= 3 ? 3 : 1);
    } else if (record[0] == "merge") {
      data.merges.push_back(FromHex(record.at(1)));
    } else {
      std::unique_ptr<Tokenizer>& tokenizer = tokenizers[record.at(1)];
      if (tokenizer == nullptr) {
        data.pre = record[1];
        tokenizer = testing::Made(data);
      }
      const std::string text = FromHex(record.at(2));
      const Result<std::vector<TokenId>> ids = tokenizer->Encode(text, {.add_special = false});
      ASSERT_TRUE(ids.ok()) << ids.status().message();
      EXPECT_EQ(*ids, Numbers(record.at(3))) << record[1] << ": " << text;
      EXPECT_EQ(tokenizer->Decode(*ids, false), text);
      ++num_texts;
    }
  }
  EXPECT_EQ(data.tokens.size(), 700u);
  EXPECT_GE(num_texts, 100u);
}

TEST(TokenizerGoldenTest, DefaultModelGivesHuggingFaceIds) {
  const std::string path = testing::DefaultModelPath();
  if (path.empty()) GTEST_SKIP() << "the default model file is not on this machine";
  const Result<formats::GgufFile> file = formats::GgufFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  const Result<std::unique_ptr<Tokenizer>> tokenizer = LoadTokenizer(*file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ((*tokenizer)->vocab_size(), 49152);
  EXPECT_EQ((*tokenizer)->warning(), "");
  for (const auto& record : testing::ReadGolden("smollm2.txt")) {
    const std::string text = FromHex(record.at(1));
    const Result<std::vector<TokenId>> ids =
        (*tokenizer)->Encode(text, {.add_special = true, .parse_special = record.at(0) == "1"});
    ASSERT_TRUE(ids.ok()) << ids.status().message();
    EXPECT_EQ(*ids, Numbers(record.at(2))) << text;
    EXPECT_EQ((*tokenizer)->Decode(*ids, false), text);
  }
}

TEST(TokenizerGoldenTest, DefaultModelRefusesBytesThatItsVocabularyLacks) {
  const std::string path = testing::DefaultModelPath();
  if (path.empty()) GTEST_SKIP() << "the default model file is not on this machine";
  const Result<formats::GgufFile> file = formats::GgufFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  const Result<std::unique_ptr<Tokenizer>> tokenizer = LoadTokenizer(*file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();

  const Result<std::vector<TokenId>> ids = (*tokenizer)->Encode("one two \x04");

  EXPECT_EQ(ids.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ids.status().message(),
            "the text's byte 0x04 at offset 8 has no token in this model's vocabulary");
}

class PublishedVectorsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(PublishedVectorsTest, AllCasesMatch) {
  const std::filesystem::path folder =
      std::filesystem::path(OCTAVO_SOURCE_DIR) / "../shared/data/tokenizers";
  const std::string name = std::string("ggml-vocab-") + GetParam() + ".gguf";
  if (!std::filesystem::exists(folder / name)) GTEST_SKIP() << "no " << name << " beside the tree";
  const Result<formats::GgufFile> file = formats::GgufFile::Open((folder / name).string());
  ASSERT_TRUE(file.ok()) << file.status().message();
  const Result<std::unique_ptr<Tokenizer>> tokenizer = LoadTokenizer(*file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();

  const std::string separator = "\n__ggml_vocab_test__\n";
  std::string texts = testing::ReadFile(folder / (name + ".inp"));
  std::istringstream expected(testing::ReadFile(folder / (name + ".out")));
  size_t num_cases = 0;
  for (std::string line; !texts.empty() && std::getline(expected, line); ++num_cases) {
    const size_t end = texts.find(separator);
    const std::string text = texts.substr(0, end);
    texts = end == std::string::npos ? "" : texts.substr(end + separator.size());
    const Result<std::vector<TokenId>> ids = (*tokenizer)->Encode(text, {.add_special = false});
    ASSERT_TRUE(ids.ok()) << ids.status().message();
    EXPECT_EQ(*ids, Numbers(line)) << text;
    EXPECT_EQ((*tokenizer)->Decode(*ids, false), text);
  }
  EXPECT_EQ(num_cases, 46u);
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, PublishedVectorsTest,
                         ::testing::Values("gpt-2", "starcoder", "llama-spm"));

}  // namespace
}  // namespace octavo::text
