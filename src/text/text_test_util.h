#pragma once

// Purpose:    small vocabularies and golden files for the tests of this folder.
// Ownership:  plain values.
// Threading:  one thread.
// Invariants: none.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "octavo/types.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer.h"
#include "text/tokenizer_factory.h"
#include "text/vocabulary.h"

namespace octavo::text::testing {

inline std::string FromHex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

inline std::vector<std::string> SplitAt(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (true) {
    const size_t end = text.find(separator, begin);
    parts.emplace_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

inline std::vector<int32_t> Numbers(const std::string& text) {
  std::istringstream in(text);
  std::vector<int32_t> numbers;
  for (int32_t number; in >> number;) numbers.push_back(number);
  return numbers;
}

// The records of a golden file: lines without a '#' in front, cut at tabs.
inline std::vector<std::vector<std::string>> ReadGolden(const std::string& name) {
  std::ifstream in(std::string(OCTAVO_SOURCE_DIR) + "/tests/golden/text/" + name);
  EXPECT_TRUE(in.is_open()) << name;
  std::vector<std::vector<std::string>> records;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with('#')) records.push_back(SplitAt(line, '\t'));
  }
  return records;
}

inline std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}

// The default model, or "" if this machine does not have it.
inline std::string DefaultModelPath() {
  std::filesystem::path path;
  if (const char* named = std::getenv("OCTAVO_MODEL")) {
    path = named;
  } else if (const char* home = std::getenv("HOME")) {
    path = std::filesystem::path(home) / ".cache/octavo/SmolLM2-135M-Instruct.Q4_1.gguf";
  }
  return std::filesystem::exists(path) ? path.string() : "";
}

// Token ids of ToyBpe.
inline constexpr TokenId kToyEnd = 0, kToyStart = 1, kToyStop = 2, kToyUser = 3;
inline constexpr TokenId kToyFirstByte = 4;

// <|endoftext|>, <|im_start|>, <|im_end|>, a user-defined <tool>, the 256 bytes, and merges for "the", "and", "  ", "aa" ...
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

// REQUIRES: the data is good.
inline std::unique_ptr<Tokenizer> Made(const VocabularyData& data) {
  Result<std::unique_ptr<Tokenizer>> tokenizer = MakeTokenizer(data);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return *std::move(tokenizer);
}

}  // namespace octavo::text::testing
