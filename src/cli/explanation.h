#pragma once

// Purpose:    a cache explanation as a table and as JSON.
// Ownership:  borrows the engine.
// Threading:  as the engine.
// Invariants: the JSON's shape is a promise (docs/guides/command-line.md).

#include <boost/json/object.hpp>
#include <span>
#include <string>
#include <vector>

#include "octavo/engine.h"

namespace octavo::cli {

// What was explained: `blocks` of `tokens`, block_size tokens each, the last one maybe fewer.
struct PromptExplanation {
  std::vector<TokenId> tokens;
  std::vector<kvcache::BlockExplanation> blocks;
  int32_t block_size = 0;

  int64_t first_position(size_t block) const { return static_cast<int64_t>(block) * block_size; }
  int32_t num_tokens(size_t block) const;
};

// A row for each block, and a last line that counts.
std::string ExplanationTable(const Engine& engine, const PromptExplanation& explanation);
boost::json::object ExplanationJson(const PromptExplanation& explanation);

}  // namespace octavo::cli
