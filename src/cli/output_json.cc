#include "cli/output_json.h"

#include <fmt/format.h>

#include <cmath>

#include "text/utf8.h"

namespace octavo::cli {
namespace {

namespace json = boost::json;

json::array IdArray(const std::vector<TokenId>& ids) { return json::array(ids.begin(), ids.end()); }

// Characters that begin in `bytes`.
int64_t NumCharacters(std::string_view bytes) {
  int64_t count = 0;
  for (const char byte : bytes) count += (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  return count;
}

// The completions API's parallel arrays, filled token by token.
class LogprobsJson {
 public:
  explicit LogprobsJson(const Engine& engine) : engine_(engine) {}

  // A token without a prediction: the first of a prompt.
  void AddUnpredicted(TokenId id) {
    AddToken(id, nullptr);
    top_logprobs_.emplace_back(nullptr);
    top_token_ids_.emplace_back(nullptr);
  }

  void Add(const TokenLogprobs& entry) {
    AddToken(entry.chosen.token_id, FiniteNumber(entry.chosen.logprob));
    json::object top;
    json::array top_ids;
    bool holds_chosen = false;
    for (const TokenLogprob& candidate : entry.top) {
      AddCandidate(candidate, &top);
      top_ids.emplace_back(candidate.token_id);
      holds_chosen = holds_chosen || candidate.token_id == entry.chosen.token_id;
    }
    if (!holds_chosen) AddCandidate(entry.chosen, &top);
    top_logprobs_.emplace_back(std::move(top));
    top_token_ids_.emplace_back(std::move(top_ids));
  }

  json::object Take() && {
    return {{"tokens", std::move(tokens_)},
            {"token_ids", std::move(token_ids_)},
            {"token_logprobs", std::move(token_logprobs_)},
            {"top_logprobs", std::move(top_logprobs_)},
            {"top_token_ids", std::move(top_token_ids_)},
            {"text_offset", std::move(text_offset_)}};
  }

 private:
  void AddToken(TokenId id, json::value logprob) {
    const std::string bytes = engine_.TokenBytes(id);
    tokens_.emplace_back(TokenString(bytes));
    token_ids_.emplace_back(id);
    token_logprobs_.emplace_back(std::move(logprob));
    text_offset_.emplace_back(offset_);
    offset_ += NumCharacters(bytes);
  }

  // Of tokens with the same spelling the most likely has it as its key, the others "token_id:N".
  void AddCandidate(const TokenLogprob& candidate, json::object* top) const {
    const json::value logprob = FiniteNumber(candidate.logprob);
    const bool is_new =
        top->emplace(TokenString(engine_.TokenBytes(candidate.token_id)), logprob).second;
    if (!is_new) top->emplace(fmt::format("token_id:{}", candidate.token_id), logprob);
  }

  const Engine& engine_;
  json::array tokens_, token_ids_, token_logprobs_, top_logprobs_, top_token_ids_, text_offset_;
  int64_t offset_ = 0;  // in characters
};

json::object CompletionJson(const Engine& engine, const CompletionOutput& completion,
                            bool with_score) {
  json::object object;
  object["index"] = completion.index;
  object["text"] = text::ReplaceInvalidUtf8(completion.text);
  object["token_ids"] = IdArray(completion.token_ids);
  if (!completion.logprobs.empty()) {
    LogprobsJson logprobs(engine);
    for (const TokenLogprobs& entry : completion.logprobs) logprobs.Add(entry);
    object["logprobs"] = std::move(logprobs).Take();
  }
  if (with_score) object["cumulative_logprob"] = FiniteNumber(completion.cumulative_logprob);
  if (completion.finish_reason == FinishReason::kNone) {
    object["finish_reason"] = nullptr;
  } else {
    object["finish_reason"] = FinishReasonName(completion.finish_reason);
  }
  json::value& stop_reason = object["stop_reason"];
  if (const auto* text = std::get_if<std::string>(&completion.stop_reason)) {
    stop_reason = text::ReplaceInvalidUtf8(*text);
  } else if (const auto* id = std::get_if<TokenId>(&completion.stop_reason)) {
    stop_reason = *id;
  }
  return object;
}

// Tokens a second, or null if there is nothing to measure.
json::value Rate(int64_t count, double seconds) {
  if (count <= 0 || seconds <= 0.0) return nullptr;
  return static_cast<double>(count) / seconds;
}

json::object UsageJson(const RequestOutput& output, int64_t num_completion_tokens) {
  const auto num_prompt_tokens = static_cast<int64_t>(output.prompt_token_ids.size());
  return {{"prompt_tokens", num_prompt_tokens},
          {"completion_tokens", num_completion_tokens},
          {"total_tokens", num_prompt_tokens + num_completion_tokens},
          {"prompt_tokens_details", json::object{{"cached_tokens", output.num_cached_tokens}}}};
}

json::object TimingJson(const Engine& engine, const RequestOutput& output,
                        int64_t num_completion_tokens) {
  const RequestTiming& timing = output.timing;
  const int64_t num_prefilled =
      static_cast<int64_t>(output.prompt_token_ids.size()) - output.num_cached_tokens;
  // The first token of each completion belongs to the prefill.
  const int64_t num_decoded = num_completion_tokens - static_cast<int64_t>(output.outputs.size());
  return {{"load_s", FiniteNumber(engine.model_info().load_s)},
          {"prefill_s", FiniteNumber(timing.prefill_s)},
          {"ttft_s", FiniteNumber(timing.ttft_s)},
          {"decode_s", FiniteNumber(timing.decode_s)},
          {"prefill_tokens_per_s", Rate(num_prefilled, timing.prefill_s)},
          {"decode_tokens_per_s", Rate(num_decoded, timing.decode_s)}};
}

}  // namespace

json::value FiniteNumber(double value) {
  if (!std::isfinite(value)) return nullptr;
  return value;
}

std::string TokenString(std::string_view bytes) {
  if (!text::ValidateUtf8(bytes)) return std::string(bytes);
  std::string escaped = "bytes:";
  for (const char byte : bytes) {
    escaped += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  }
  return escaped;
}

json::object BytesByTag(const MemoryUsage& usage) {
  json::object object;
  for (size_t tag = 0; tag < kNumMemoryTags; ++tag) {
    object[MemoryTagName(static_cast<MemoryTag>(tag))] = usage.bytes[tag];
  }
  object["total"] = usage.total();
  return object;
}

json::object RunOutputJson(const Engine& engine, const RequestOutput& output, bool with_scores) {
  int64_t num_completion_tokens = 0;
  json::array completions;
  for (const CompletionOutput& completion : output.outputs) {
    completions.emplace_back(CompletionJson(engine, completion, with_scores));
    num_completion_tokens += static_cast<int64_t>(completion.token_ids.size());
  }
  json::object object;
  object["model"] = text::ReplaceInvalidUtf8(engine.model_info().name);
  object["prompt_token_ids"] = IdArray(output.prompt_token_ids);
  if (!output.prompt_logprobs.empty()) {
    LogprobsJson logprobs(engine);
    logprobs.AddUnpredicted(output.prompt_token_ids.front());
    for (const TokenLogprobs& entry : output.prompt_logprobs) logprobs.Add(entry);
    object["prompt_logprobs"] = std::move(logprobs).Take();
  }
  object["outputs"] = std::move(completions);
  object["seed"] = output.seed;
  object["num_preemptions"] = output.num_preemptions;
  object["max_model_len"] = engine.model_info().max_model_len;
  object["usage"] = UsageJson(output, num_completion_tokens);
  object["timing"] = TimingJson(engine, output, num_completion_tokens);

  const MemoryPlan plan = engine.memory_plan();
  json::object memory = BytesByTag(plan.actual);
  memory["planned"] = BytesByTag(plan.planned);
  memory["limit"] = plan.limit_bytes;
  memory["kv_bytes_per_token"] = plan.kv_bytes_per_token;
  object["memory"] = std::move(memory);
  return object;
}

}  // namespace octavo::cli
