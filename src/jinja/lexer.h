#pragma once

// Purpose:    a template's text as tokens, with Jinja's control of white space: trim_blocks,
//             lstrip_blocks, `-` and `+`, raw blocks and comments.
// Ownership:  tokens own their texts.
// Threading:  any thread.
// Invariants: the last token is kEnd; line numbers count from 1; line ends are \n; one line feed at
//             the end of the template is dropped.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "octavo/status.h"

namespace octavo::jinja {

enum class TokenType : uint8_t {
  kData,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenType type = TokenType::kEnd;
  int32_t line = 1;
  std::string text;  // unescaped for kString
  int64_t integer = 0;
  double number = 0;
};

// kUnimplemented or kInvalidArgument, with the line.
Result<std::vector<Token>> Tokenize(std::string_view source);

}  // namespace octavo::jinja
