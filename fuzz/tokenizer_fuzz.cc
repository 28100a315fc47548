// Fuzzes the tokenizers: any bytes come back from their tokens, the incremental detokenizer agrees
// with the whole text, control tokens appear only on request, and no metadata makes the loader
// crash.
//
// Input: one byte that chooses what is done, then its data. 0 .. 3   text: a byte that chooses the
// vocabulary, a byte of flags, the text 4, 5     a vocabulary and merges described by the data,
// then a text 6        a GGUF file 7        a chat template and a message

#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "formats/gguf_file.h"
#include "text/chat_template.h"
#include "text/incremental_detokenizer.h"
#include "text/tokenizer.h"
#include "text/tokenizer_factory.h"
#include "text/toy_vocabulary.h"
#include "text/utf8.h"

namespace octavo::text {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

std::unique_ptr<Tokenizer> Made(const VocabularyData& data) {
  Result<std::unique_ptr<Tokenizer>> tokenizer = MakeTokenizer(data);
  OCTAVO_CHECK(tokenizer.ok(), tokenizer.status().message());
  return *std::move(tokenizer);
}

const std::vector<std::unique_ptr<Tokenizer>>& ToyTokenizers() {
  static const std::vector<std::unique_ptr<Tokenizer>> tokenizers = [] {
    std::vector<std::unique_ptr<Tokenizer>> made;
    made.push_back(Made(testing::ToySpm()));
    for (const char* pre :
         {"smollm", "gpt-2", "llama-bpe", "qwen2", "qwen35", "deepseek-llm", "deepseek-coder",
          "deepseek-v3", "falcon", "tekken", "gpt-4o", "default"}) {
      made.push_back(Made(testing::ToyBpe(pre)));
    }
    return made;
  }();
  return tokenizers;
}

void CheckIncremental(const Tokenizer& tokenizer, const std::vector<TokenId>& ids,
                      bool skip_special) {
  IncrementalDetokenizer detokenizer(tokenizer, {.skip_special = skip_special});
  std::string text;
  for (const TokenId id : ids) {
    const std::string piece = detokenizer.Push(id);
    OCTAVO_CHECK(!ValidateUtf8(piece).has_value(), "a piece is not UTF-8");
    text += piece;
  }
  text += detokenizer.Flush();
  OCTAVO_CHECK(text == ReplaceInvalidUtf8(tokenizer.Decode(ids, skip_special)),
               "the pieces are not the whole");
}

// `exact`: the vocabulary has a token for every byte.
void CheckText(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options,
               bool exact) {
  const Result<std::vector<TokenId>> ids = tokenizer.Encode(text, options);
  if (!ids.ok()) {
    OCTAVO_CHECK(!exact, ids.status().message());
    return;
  }
  for (const TokenId id : *ids) {
    OCTAVO_CHECK(id >= 0 && id < tokenizer.vocab_size(), "an id outside the vocabulary");
    OCTAVO_CHECK(options.parse_special || options.add_special || !exact || !tokenizer.IsSpecial(id),
                 "a control token without request");
  }
  CheckIncremental(tokenizer, *ids, false);
  CheckIncremental(tokenizer, *ids, true);
  // SentencePiece turns U+2581 into a space, and puts one after every parsed control token.
  const bool comes_back = !tokenizer.adds_space_prefix() ||
                          (!options.parse_special && text.find(kSpaceMark) == text.npos);
  if (exact && comes_back && !options.add_special) {
    OCTAVO_CHECK(tokenizer.Decode(*ids, false) == text, "bytes in are not bytes out");
  }
}

void FuzzText(FuzzedDataProvider* data) {
  const auto& tokenizers = ToyTokenizers();
  const auto which = data->ConsumeIntegralInRange<size_t>(0, tokenizers.size() - 1);
  const auto flags = data->ConsumeIntegral<uint8_t>();
  const EncodeOptions options = {(flags & 1) != 0, (flags & 2) != 0};
  CheckText(*tokenizers[which], data->ConsumeRemainingBytesAsString(), options, true);
}

void FuzzVocabulary(FuzzedDataProvider* data, TokenizerKind kind) {
  const bool grown = data->ConsumeBool();  // begin with a good vocabulary, or with nothing
  VocabularyData vocabulary;
  if (grown) {
    vocabulary = kind == TokenizerKind::kByteLevelBpe ? testing::ToyBpe() : testing::ToySpm();
  }
  vocabulary.kind = kind;
  constexpr const char* kPres[] = {"smollm", "llama-bpe", "deepseek-v3", "", "unknown"};
  vocabulary.pre = data->PickValueInArray(kPres);
  const int num_tokens = data->ConsumeIntegralInRange(0, 24);
  for (int i = 0; i < num_tokens; ++i) {
    vocabulary.tokens.push_back(data->ConsumeRandomLengthString(12));
    vocabulary.token_types.push_back(data->ConsumeIntegralInRange(0, 7));
    if (kind == TokenizerKind::kSentencePiece) {
      vocabulary.scores.push_back(data->ConsumeFloatingPoint<float>());
    }
  }
  const int num_merges = data->ConsumeIntegralInRange(0, 8);
  for (int i = 0; i < num_merges && !vocabulary.tokens.empty(); ++i) {
    const auto any = [&] { return data->PickValueInArray<int>({0, 70, 101, 104, 260, 261}); };
    const auto last = vocabulary.tokens.size() - 1;
    const auto token = [&](size_t i_token) { return vocabulary.tokens[std::min(i_token, last)]; };
    vocabulary.merges.push_back(data->ConsumeBool() ? data->ConsumeRandomLengthString(12)
                                                    : token(static_cast<size_t>(any())) + " " +
                                                          token(static_cast<size_t>(any())));
  }
  if (data->ConsumeBool()) vocabulary.bos_id = data->ConsumeIntegralInRange<uint64_t>(0, 400);
  if (data->ConsumeBool()) vocabulary.eos_id = data->ConsumeIntegralInRange<uint64_t>(0, 400);
  if (data->ConsumeBool()) vocabulary.unknown_id = data->ConsumeIntegralInRange<uint64_t>(0, 400);
  if (data->ConsumeBool()) vocabulary.add_bos = data->ConsumeBool();
  if (data->ConsumeBool()) vocabulary.add_eos = data->ConsumeBool();
  if (data->ConsumeBool()) vocabulary.add_space_prefix = data->ConsumeBool();
  const bool parse_special = data->ConsumeBool();
  const Result<std::unique_ptr<Tokenizer>> tokenizer = MakeTokenizer(vocabulary);
  if (!tokenizer.ok()) {
    OCTAVO_CHECK(!tokenizer.status().message().empty(), "an error without a message");
    return;
  }
  const std::string text = data->ConsumeRemainingBytesAsString();
  CheckText(**tokenizer, text, {true, parse_special}, false);
  // A byte-level vocabulary refuses what it cannot spell; what it accepts comes back.
  CheckText(**tokenizer, text, {false, parse_special},
            kind == TokenizerKind::kByteLevelBpe && grown);
}

void FuzzFile(FuzzedDataProvider* data) {
  const std::string bytes = data->ConsumeRemainingBytesAsString();
  const Result<formats::GgufFile> file =
      formats::GgufFile::FromBytes(std::as_bytes(std::span(bytes)));
  if (!file.ok()) return;
  const Result<std::unique_ptr<Tokenizer>> tokenizer = LoadTokenizer(*file);
  if (tokenizer.ok()) CheckText(**tokenizer, "the <s> text\n", {true, true}, false);
  const Result<ChatTemplate> chat_template = ChatTemplate::FromGguf(*file);
  OCTAVO_CHECK(chat_template.ok() || !chat_template.status().message().empty(),
               "an error without a message");
}

void FuzzChat(FuzzedDataProvider* data) {
  const std::string jinja = data->ConsumeRandomLengthString(600);
  const Result<ChatTemplate> chat_template = ChatTemplate::FromText(jinja);
  if (!chat_template.ok()) return;
  const std::vector<ChatMessage> messages = {
      {data->ConsumeRandomLengthString(16), data->ConsumeRemainingBytesAsString()}};
  const Tokenizer& tokenizer = *ToyTokenizers()[1];
  const Result<ChatPrompt> prompt = chat_template->Encode(tokenizer, messages, true);
  if (!prompt.ok()) {
    OCTAVO_CHECK(!prompt.status().message().empty(), "an error without a message");
    return;
  }
  const std::vector<TokenId>& ids = prompt->token_ids;
  OCTAVO_CHECK(tokenizer.Decode(ids, false) == prompt->text, "ids and rendered text differ");
  // A template that spells no '<' can open no control token, whatever the message spells.
  if (jinja.find_first_of("<\\") != std::string::npos) return;
  const bool spells_bos = jinja.find("os_token") != std::string::npos;
  for (const TokenId id : ids) {
    OCTAVO_CHECK(!tokenizer.IsSpecial(id) || spells_bos, "a message's text became a control token");
  }
}

}  // namespace
}  // namespace octavo::text

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t num_bytes) {
  using octavo::text::TokenizerKind;
  if (num_bytes == 0) return 0;
  FuzzedDataProvider data(bytes + 1, num_bytes - 1);
  switch (bytes[0] % 8) {
    case 4:
      octavo::text::FuzzVocabulary(&data, TokenizerKind::kByteLevelBpe);
      break;
    case 5:
      octavo::text::FuzzVocabulary(&data, TokenizerKind::kSentencePiece);
      break;
    case 6:
      octavo::text::FuzzFile(&data);
      break;
    case 7:
      octavo::text::FuzzChat(&data);
      break;
    default:
      octavo::text::FuzzText(&data);
  }
  return 0;
}
