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
#include <utility>

#include "engine/explanation_text.h"
#include "text/utf8.h"

namespace octavo::cli {
namespace {

// The beginning of a block's text, in JSON's quotes.
std::string Beginning(const std::string& text) {
  constexpr size_t kMaxBytes = 32;
  size_t end = std::min(kMaxBytes, text.size());
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return boost::json::serialize(boost::json::string(text.substr(0, end))) +
         (end < text.size() ? " ..." : "");
}

// An integer of [low, high].
std::optional<int64_t> IntegerOf(const boost::json::object& object, std::string_view key,
                                 int64_t low, int64_t high) {
  const boost::json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_int64()) return std::nullopt;
  const int64_t integer = value->get_int64();
  return low <= integer && integer <= high ? std::optional(integer) : std::nullopt;
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

// The next block of `read`, whose tokens are there already.
bool ReadBlock(const boost::json::value& value, int64_t now_ms, PromptExplanation* read) {
  using kvcache::BlockMatch, kvcache::MissReason;
  constexpr int64_t kMaxMs = int64_t{1} << 50;
  const boost::json::object* object = value.if_object();
  if (object == nullptr) return false;
  const auto match =
      NamedOf(*object, "match", {BlockMatch::kHit, BlockMatch::kPartial, BlockMatch::kMiss},
              engine::BlockMatchName);
  const auto reason = NamedOf(*object, "reason",
                              {MissReason::kNone, MissReason::kNeverSeen, MissReason::kEvicted,
                               MissReason::kTokensDiffer, MissReason::kCachingDisabled},
                              engine::MissReasonName);
  const auto num_cached =
      IntegerOf(*object, "num_cached_tokens", 0, read->num_tokens(read->blocks.size()));
  const boost::json::value* text = object->if_contains("text");
  if (!match || !reason || !num_cached || text == nullptr || !text->is_string()) return false;
  kvcache::BlockExplanation block;
  block.match = *match;
  block.reason = *reason;
  block.num_cached_tokens = static_cast<int32_t>(*num_cached);
  if (block.reason == MissReason::kEvicted) {
    const auto ago_ms = IntegerOf(*object, "evicted_ms_ago", 0, kMaxMs);
    if (!ago_ms) return false;
    block.evicted_at_ms = now_ms - *ago_ms;
  }
  if (block.reason == MissReason::kTokensDiffer) {
    const auto position =
        IntegerOf(*object, "differs_at", 0, static_cast<int64_t>(read->tokens.size()) - 1);
    if (!position) return false;
    block.differs_at = *position;
  }
  read->blocks.push_back(block);
  read->texts.emplace_back(text->get_string());
  return true;
}

bool ReadTokens(const boost::json::object& answer, std::vector<TokenId>* tokens) {
  const boost::json::array* ids = ArrayOf(answer, "prompt_token_ids");
  if (ids == nullptr) return false;
  for (const boost::json::value& id : *ids) {
    if (!id.is_int64() || id.get_int64() < 0 || id.get_int64() > INT32_MAX) return false;
    tokens->push_back(static_cast<TokenId>(id.get_int64()));
  }
  return true;
}

bool ReadBlocks(const boost::json::object& answer, PromptExplanation* read) {
  const boost::json::value* value = answer.if_contains("explanation");
  const boost::json::object* explanation = value == nullptr ? nullptr : value->if_object();
  if (explanation == nullptr) return false;
  const boost::json::array* blocks = ArrayOf(*explanation, "blocks");
  const auto block_size = IntegerOf(*explanation, "block_size", 1, INT32_MAX);
  if (blocks == nullptr || !block_size) return false;
  const auto num_tokens = static_cast<int64_t>(read->tokens.size());
  if (static_cast<int64_t>(blocks->size()) != (num_tokens + *block_size - 1) / *block_size) {
    return false;
  }
  read->block_size = static_cast<int32_t>(*block_size);
  const int64_t now_ms = engine::ExplanationClockMs();
  return std::ranges::all_of(
      *blocks, [&](const boost::json::value& block) { return ReadBlock(block, now_ms, read); });
}

}  // namespace

int32_t PromptExplanation::num_tokens(size_t block) const {
  const int64_t num_left = static_cast<int64_t>(tokens.size()) - first_position(block);
  return static_cast<int32_t>(std::min<int64_t>(block_size, num_left));
}

PromptExplanation MakeExplanation(const Engine& engine, std::vector<TokenId> tokens,
                                  std::vector<kvcache::BlockExplanation> blocks) {
  PromptExplanation made{std::move(tokens), std::move(blocks), engine.model_info().block_size, {}};
  for (size_t i = 0; i < made.blocks.size(); ++i) {
    std::string bytes;
    const auto first = static_cast<size_t>(made.first_position(i));
    for (int32_t j = 0; j < made.num_tokens(i); ++j) {
      bytes += engine.TokenBytes(made.tokens[first + static_cast<size_t>(j)]);
    }
    made.texts.push_back(text::ReplaceInvalidUtf8(bytes));
  }
  return made;
}

std::string ExplanationTable(const PromptExplanation& explanation) {
  const int64_t now_ms = engine::ExplanationClockMs();
  std::string table = fmt::format("{:>6}  {:>15}  {:>7}  {:<38}  {}\n", "block", "positions",
                                  "cached", "outcome", "text");
  for (size_t i = 0; i < explanation.blocks.size(); ++i) {
    const kvcache::BlockExplanation& block = explanation.blocks[i];
    const int64_t first = explanation.first_position(i);
    const int32_t num_tokens = explanation.num_tokens(i);
    table += fmt::format("{:>6}  {:>15}  {:>7}  {:<38}  {}\n", i,
                         fmt::format("{}-{}", first, first + num_tokens - 1),
                         fmt::format("{}/{}", block.num_cached_tokens, num_tokens),
                         engine::DescribeBlock(block, now_ms), Beginning(explanation.texts[i]));
  }
  const engine::ExplanationSummary summary = engine::Summarize(explanation.blocks);
  return table + fmt::format("{} of {} tokens cached; blocks: {} hit, {} partial, {} missed\n",
                             summary.num_cached_tokens, explanation.tokens.size(),
                             summary.num_hit_blocks, summary.num_partial_blocks,
                             summary.num_missed_blocks);
}

Result<PromptExplanation> ReadExplanation(const boost::json::object& answer) {
  PromptExplanation read;
  if (ReadTokens(answer, &read.tokens) && ReadBlocks(answer, &read)) return read;
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
    object["text"] = explanation.texts[i];
    blocks.emplace_back(std::move(object));
  }
  return {{"block_size", explanation.block_size},
          {"num_cached_tokens", engine::Summarize(explanation.blocks).num_cached_tokens},
          {"blocks", std::move(blocks)}};
}

}  // namespace octavo::cli
