#pragma once

// Purpose:    a cache explanation as a table and as JSON, and its reading from a server's JSON.
// Ownership:  borrows the engine.
// Threading:  as the engine.
// Invariants: the JSON's shape is a promise (docs/guides/command-line.md).

#include <boost/json/object.hpp>
#include <functional>
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

// A row for each block, and a last line that counts. `bytes_at`: those of the prompt's token at a
// position.
std::string ExplanationTable(const PromptExplanation& explanation,
                             const std::function<std::string(size_t position)>& bytes_at);
std::string ExplanationTable(const Engine& engine, const PromptExplanation& explanation);
boost::json::object ExplanationJson(const PromptExplanation& explanation);

// What a server says of a prompt: its answer on a path that ends in /explain.
struct ServerExplanation {
  PromptExplanation prompt;
  std::vector<std::string> token_strs;  // one for each token
};
// kDataLoss: `answer` is not such an answer.
Result<ServerExplanation> ReadServerExplanation(const boost::json::object& answer);

}  // namespace octavo::cli
