#include "cli/explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>

#include "engine/explanation_text.h"
#include "text/utf8.h"

namespace octavo::cli {
namespace {

// The beginning of a block's text, in JSON's quotes.
std::string Beginning(const Engine& engine, std::span<const TokenId> tokens) {
  constexpr size_t kNumTokens = 6;
  const auto shown = tokens.first(std::min(kNumTokens, tokens.size()));
  std::string bytes;
  for (const TokenId id : shown) bytes += engine.TokenBytes(id);
  const std::string text = text::ReplaceInvalidUtf8(bytes);
  return boost::json::serialize(boost::json::string(text)) +
         (shown.size() < tokens.size() ? " ..." : "");
}

}  // namespace

int32_t PromptExplanation::num_tokens(size_t block) const {
  const int64_t num_left = static_cast<int64_t>(tokens.size()) - first_position(block);
  return static_cast<int32_t>(std::min<int64_t>(block_size, num_left));
}

std::string ExplanationTable(const Engine& engine, const PromptExplanation& explanation) {
  const int64_t now_ms = engine::ExplanationClockMs();
  std::string table = fmt::format("{:>6}  {:>15}  {:>7}  {:<38}  {}\n", "block", "positions",
                                  "cached", "outcome", "text");
  for (size_t i = 0; i < explanation.blocks.size(); ++i) {
    const kvcache::BlockExplanation& block = explanation.blocks[i];
    const int64_t first = explanation.first_position(i);
    const int32_t num_tokens = explanation.num_tokens(i);
    const std::span<const TokenId> tokens(explanation.tokens);
    table += fmt::format("{:>6}  {:>15}  {:>7}  {:<38}  {}\n", i,
                         fmt::format("{}-{}", first, first + num_tokens - 1),
                         fmt::format("{}/{}", block.num_cached_tokens, num_tokens),
                         engine::DescribeBlock(block, now_ms),
                         Beginning(engine, tokens.subspan(static_cast<size_t>(first),
                                                          static_cast<size_t>(num_tokens))));
  }
  const engine::ExplanationSummary summary = engine::Summarize(explanation.blocks);
  return table + fmt::format("{} of {} tokens cached; blocks: {} hit, {} partial, {} missed\n",
                             summary.num_cached_tokens, explanation.tokens.size(),
                             summary.num_hit_blocks, summary.num_partial_blocks,
                             summary.num_missed_blocks);
}

boost::json::object ExplanationJson(const PromptExplanation& explanation) {
  const int64_t now_ms = engine::ExplanationClockMs();
  boost::json::array blocks;
  for (size_t i = 0; i < explanation.blocks.size(); ++i) {
    const kvcache::BlockExplanation& block = explanation.blocks[i];
    boost::json::object object{{"index", i},
                               {"first_position", explanation.first_position(i)},
                               {"num_tokens", explanation.num_tokens(i)},
                               {"num_cached_tokens", block.num_cached_tokens},
                               {"match", engine::BlockMatchName(block.match)},
                               {"reason", nullptr}};
    if (block.reason != kvcache::MissReason::kNone) {
      object["reason"] = engine::MissReasonName(block.reason);
    }
    if (block.reason == kvcache::MissReason::kEvicted) {
      object["evicted_ms_ago"] = std::max<int64_t>(now_ms - block.evicted_at_ms, 0);
    }
    if (block.reason == kvcache::MissReason::kTokensDiffer) {
      object["differs_at"] = block.differs_at;
    }
    blocks.emplace_back(std::move(object));
  }
  return {{"block_size", explanation.block_size},
          {"num_cached_tokens", engine::Summarize(explanation.blocks).num_cached_tokens},
          {"blocks", std::move(blocks)}};
}

}  // namespace octavo::cli
