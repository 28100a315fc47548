#pragma once

// Purpose:    small vocabularies made in memory, for tests and fuzzers.
// Ownership:  plain values.
// Threading:  any thread.
// Invariants: every byte has a token.

#include <cstdint>
#include <string>
#include <utility>

#include "octavo/types.h"
#include "text/byte_alphabet.h"
#include "text/vocabulary.h"

namespace octavo::text::testing {

// Token ids of ToyBpe.
inline constexpr TokenId kToyEnd = 0, kToyStart = 1, kToyStop = 2, kToyUser = 3;
inline constexpr TokenId kToyFirstByte = 4;

// <|endoftext|>, <|im_start|>, <|im_end|>, a user-defined <tool>, the 256 bytes, and merges for
// "the", "and", "  ", "aa" ...
inline VocabularyData ToyBpe(const std::string& pre = "smollm") {
  VocabularyData data;
  data.pre = pre;
  data.tokens = {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool>"};
  data.token_types = {3, 3, 3, 4};
  for (int byte = 0; byte < 256; ++byte) {
    data.tokens.emplace_back(ByteSpelling(static_cast<uint8_t>(byte)));
    data.token_types.push_back(1);
  }
  const std::string space(ByteSpelling(' '));
  const std::pair<std::string, std::string> merges[] = {
      {"t", "h"},     {"th", "e"},
      {space, "the"}, {"a", "n"},
      {"an", "d"},    {space, "and"},
      {space, space}, {"a", "a"},
      {"aa", "aa"},   {"\xC3\xB0", "\xC5\x81"},
      {"e", "n"},     {space + space, space + space}};
  for (const auto& [left, right] : merges) {
    data.merges.push_back(left + " " + right);
    data.tokens.push_back(left + right);
    data.token_types.push_back(1);
  }
  data.bos_id = kToyStart;
  data.eos_id = kToyStop;
  return data;
}

// <unk>, <s>, </s>, the 256 byte tokens, and pieces with scores.
inline VocabularyData ToySpm() {
  VocabularyData data;
  data.kind = TokenizerKind::kSentencePiece;
  data.tokens = {"<unk>", "<s>", "</s>"};
  data.token_types = {2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    constexpr char kDigits[] = "0123456789ABCDEF";
    data.tokens.push_back({'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'});
    data.token_types.push_back(6);
  }
  data.scores.assign(data.tokens.size(), 0.0f);
  const std::string mark = "\xE2\x96\x81";
  const std::string pieces[] = {mark + "t", "he", mark + "the", mark + mark, "er", mark,
                                "t",        "h",  "e",          "r",         "a",  "\xC3\xA9"};
  float score = 0.0f;
  for (const std::string& piece : pieces) {
    data.tokens.push_back(piece);
    data.token_types.push_back(1);
    data.scores.push_back(score -= 1.0f);
  }
  return data;
}

}  // namespace octavo::text::testing
