#include "cli/explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "engine/explanation_text.h"
#include "text/utf8.h"

namespace octavo::cli {
namespace {

// The beginning of a block's text, in JSON's quotes.
std::string Beginning(const std::function<std::string(size_t position)>& bytes_at, size_t first,
                      size_t num_tokens) {
  constexpr size_t kMaxShown = 6;
  const size_t num_shown = std::min(kMaxShown, num_tokens);
  std::string bytes;
  for (size_t i = 0; i < num_shown; ++i) bytes += bytes_at(first + i);
  const std::string text = text::ReplaceInvalidUtf8(bytes);
  return boost::json::serialize(boost::json::string(text)) + (num_shown < num_tokens ? " ..." : "");
}

std::optional<int64_t> IntegerOf(const boost::json::object& object, std::string_view key) {
  const boost::json::value* value = object.if_contains(key);
  return value != nullptr && value->is_int64() ? std::optional(value->get_int64()) : std::nullopt;
}

const boost::json::array* ArrayOf(const boost::json::object& object, std::string_view key) {
  const boost::json::value* value = object.if_contains(key);
  return value == nullptr ? nullptr : value->if_array();
}

// The value of `values` whose name (by `name_of`) stands at `key`; null has the name "".
template <typename Value>
std::optional<Value> NamedOf(const boost::json::object& object, std::string_view key,
                             std::initializer_list<Value> values,
                             std::string_view (*name_of)(Value)) {
  const boost::json::value* name = object.if_contains(key);
  if (name == nullptr || !(name->is_string() || name->is_null())) return std::nullopt;
  const std::string_view wanted = name->is_null() ? std::string_view() : name->get_string();
  for (const Value value : values) {
    if (name_of(value) == wanted) return value;
  }
  return std::nullopt;
}

std::optional<kvcache::BlockExplanation> ReadBlock(const boost::json::value& value,
                                                   int64_t block_size, int64_t now_ms) {
  using kvcache::BlockMatch, kvcache::MissReason;
  const boost::json::object* object = value.if_object();
  if (object == nullptr) return std::nullopt;
  const auto match =
      NamedOf(*object, "match", {BlockMatch::kHit, BlockMatch::kPartial, BlockMatch::kMiss},
              engine::BlockMatchName);
  const auto reason = NamedOf(*object, "reason",
                              {MissReason::kNone, MissReason::kNeverSeen, MissReason::kEvicted,
                               MissReason::kTokensDiffer, MissReason::kCachingDisabled},
                              engine::MissReasonName);
  const std::optional<int64_t> num_cached = IntegerOf(*object, "num_cached_tokens");
  if (!match || !reason || !num_cached || *num_cached < 0 || *num_cached > block_size) {
    return std::nullopt;
  }
  kvcache::BlockExplanation block;
  block.match = *match;
  block.reason = *reason;
  block.num_cached_tokens = static_cast<int32_t>(*num_cached);
  block.evicted_at_ms = now_ms - IntegerOf(*object, "evicted_ms_ago").value_or(0);
  block.differs_at = IntegerOf(*object, "differs_at").value_or(0);
  return block;
}

// Tokens and their texts.
bool ReadTokens(const boost::json::object& answer, ServerExplanation* read) {
  const boost::json::array* ids = ArrayOf(answer, "prompt_token_ids");
  const boost::json::array* texts = ArrayOf(answer, "token_strs");
  if (ids == nullptr || texts == nullptr || ids->size() != texts->size()) return false;
  for (size_t i = 0; i < ids->size(); ++i) {
    const boost::json::value& id = (*ids)[i];
    const boost::json::value& text = (*texts)[i];
    if (!id.is_int64() || id.get_int64() < 0 || id.get_int64() > INT32_MAX || !text.is_string()) {
      return false;
    }
    read->prompt.tokens.push_back(static_cast<TokenId>(id.get_int64()));
    read->token_strs.emplace_back(text.get_string());
  }
  return true;
}

bool ReadBlocks(const boost::json::object& answer, PromptExplanation* prompt) {
  const boost::json::value* value = answer.if_contains("explanation");
  const boost::json::object* explanation = value == nullptr ? nullptr : value->if_object();
  if (explanation == nullptr) return false;
  const boost::json::array* blocks = ArrayOf(*explanation, "blocks");
  const int64_t block_size = IntegerOf(*explanation, "block_size").value_or(0);
  if (blocks == nullptr || block_size < 1 || block_size > INT32_MAX) return false;
  const auto num_tokens = static_cast<int64_t>(prompt->tokens.size());
  if (static_cast<int64_t>(blocks->size()) != (num_tokens + block_size - 1) / block_size) {
    return false;
  }
  prompt->block_size = static_cast<int32_t>(block_size);
  const int64_t now_ms = engine::ExplanationClockMs();
  for (const boost::json::value& block : *blocks) {
    const auto read = ReadBlock(block, block_size, now_ms);
    if (!read) return false;
    prompt->blocks.push_back(*read);
  }
  return true;
}

}  // namespace

int32_t PromptExplanation::num_tokens(size_t block) const {
  const int64_t num_left = static_cast<int64_t>(tokens.size()) - first_position(block);
  return static_cast<int32_t>(std::min<int64_t>(block_size, num_left));
}

std::string ExplanationTable(const PromptExplanation& explanation,
                             const std::function<std::string(size_t position)>& bytes_at) {
  const int64_t now_ms = engine::ExplanationClockMs();
  std::string table = fmt::format("{:>6}  {:>15}  {:>7}  {:<38}  {}\n", "block", "positions",
                                  "cached", "outcome", "text");
  for (size_t i = 0; i < explanation.blocks.size(); ++i) {
    const kvcache::BlockExplanation& block = explanation.blocks[i];
    const int64_t first = explanation.first_position(i);
    const int32_t num_tokens = explanation.num_tokens(i);
    table += fmt::format(
        "{:>6}  {:>15}  {:>7}  {:<38}  {}\n", i,
        fmt::format("{}-{}", first, first + num_tokens - 1),
        fmt::format("{}/{}", block.num_cached_tokens, num_tokens),
        engine::DescribeBlock(block, now_ms),
        Beginning(bytes_at, static_cast<size_t>(first), static_cast<size_t>(num_tokens)));
  }
  const engine::ExplanationSummary summary = engine::Summarize(explanation.blocks);
  return table + fmt::format("{} of {} tokens cached; blocks: {} hit, {} partial, {} missed\n",
                             summary.num_cached_tokens, explanation.tokens.size(),
                             summary.num_hit_blocks, summary.num_partial_blocks,
                             summary.num_missed_blocks);
}

std::string ExplanationTable(const Engine& engine, const PromptExplanation& explanation) {
  return ExplanationTable(explanation, [&](size_t position) {
    return engine.TokenBytes(explanation.tokens[position]);
  });
}

Result<ServerExplanation> ReadServerExplanation(const boost::json::object& answer) {
  ServerExplanation read;
  if (ReadTokens(answer, &read) && ReadBlocks(answer, &read.prompt)) return read;
  return Status::DataLoss("the server's answer is no explanation: " +
                          boost::json::serialize(answer).substr(0, 200));
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
