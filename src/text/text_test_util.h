#pragma once

// Purpose:    golden files and short cuts for the tests of this folder.
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
#include "text/tokenizer.h"
#include "text/tokenizer_factory.h"
#include "text/toy_vocabulary.h"
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

// REQUIRES: the data is good.
inline std::unique_ptr<Tokenizer> Made(const VocabularyData& data) {
  Result<std::unique_ptr<Tokenizer>> tokenizer = MakeTokenizer(data);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return *std::move(tokenizer);
}

}  // namespace octavo::text::testing
