#pragma once

// Purpose:    a cache explanation as a table and as JSON, and its reading from a server's JSON.
// Ownership:  borrows the engine.
// Threading:  as the engine.
// Invariants: the JSON's shape is a promise (docs/guides/command-line.md).

#include <boost/json/object.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "octavo/engine.h"

namespace octavo::cli {

// What was explained: `blocks` of `tokens`, block_size tokens each, the last one maybe fewer.
struct PromptExplanation {
  std::vector<TokenId> tokens;
  std::vector<kvcache::BlockExplanation> blocks;
  int32_t block_size = 0;
  std::vector<std::string> texts;  // of each block, UTF-8

  int64_t first_position(size_t block) const { return static_cast<int64_t>(block) * block_size; }
  int32_t num_tokens(size_t block) const;
};

// With the texts of the blocks as `engine` spells them.
PromptExplanation MakeExplanation(const Engine& engine, std::vector<TokenId> tokens,
                                  std::vector<kvcache::BlockExplanation> blocks);

// A row for each block, and a last line that counts.
std::string ExplanationTable(const PromptExplanation& explanation);
boost::json::object ExplanationJson(const PromptExplanation& explanation);

// `answer` is what a server says on a path that ends in /explain. kDataLoss: it is something else.
Result<PromptExplanation> ReadExplanation(const boost::json::object& answer);

}  // namespace octavo::cli
