#include "server/answer_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "engine/explanation_text.h"
#include "server/sse.h"
#include "text/utf8.h"

namespace octavo::server {
namespace {

void WriteBytes(std::string_view bytes, JsonWriter& json) {
  json.BeginArray();
  for (const char byte : bytes) json.Int(static_cast<unsigned char>(byte));
  json.EndArray();
}

// token, logprob, bytes.
void WriteChatToken(const Engine& engine, const AnswerOptions& answer, const TokenLogprob& token,
                    JsonWriter& json) {
  json.Member("token", answer.tokens_as_token_ids
                           ? fmt::format("token_id:{}", token.token_id)
                           : text::ReplaceInvalidUtf8(engine.TokenBytes(token.token_id)));
  json.Key("logprob").Float(token.logprob);
  json.Key("bytes");
  WriteBytes(TextBytes(engine, answer, token.token_id), json);
}

}  // namespace

int64_t NumCharacters(std::string_view text) {
  return std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

void Usage::Add(const RequestOutput& output) {
  num_prompt_tokens += static_cast<int64_t>(output.prompt_token_ids.size());
  num_cached_tokens += output.num_cached_tokens;
  for (const CompletionOutput& completion : output.outputs) {
    num_generation_tokens += static_cast<int64_t>(completion.token_ids.size());
  }
}

void WriteUsage(const Usage& usage, JsonWriter& json) {
  json.BeginObject()
      .Member("prompt_tokens", usage.num_prompt_tokens)
      .Member("completion_tokens", usage.num_generation_tokens)
      .Member("total_tokens", usage.num_prompt_tokens + usage.num_generation_tokens);
  json.Key("prompt_tokens_details")
      .BeginObject()
      .Member("cached_tokens", usage.num_cached_tokens)
      .EndObject();
  json.EndObject();
}

void WriteAnswerHead(const AnswerHead& head, std::string_view object, JsonWriter& json) {
  json.Member("id", head.id)
      .Member("object", object)
      .Member("created", head.created)
      .Member("model", head.model);
}

void WriteChunkUsage(const AnswerOptions& answer, const Usage& so_far, JsonWriter& json) {
  if (answer.continuous_usage) {
    json.Key("usage");
    WriteUsage(so_far, json);
  } else if (answer.include_usage) {
    json.NullMember("usage");
  }
}

std::string LastChunks(const AnswerHead& head, std::string_view object, const AnswerOptions& answer,
                       const Usage& usage, const RequestOutput& first_output) {
  std::string events;
  if (answer.include_usage || answer.include_metrics || answer.explain) {
    JsonWriter json;
    json.BeginObject();
    WriteAnswerHead(head, object, json);
    json.Key("choices").BeginArray().EndArray();
    if (answer.include_usage) {
      json.Key("usage");
      WriteUsage(usage, json);
    }
    if (answer.include_metrics) {
      json.Key("metrics");
      WriteMetrics(first_output, json);
    }
    if (answer.explain) {
      json.Key("explanation");
      WriteExplanation(first_output, json);
    }
    json.EndObject();
    AppendEvent(json.text(), &events);
  }
  return events + std::string(kStreamEnd);
}

std::string TextBytes(const Engine& engine, const AnswerOptions& answer, TokenId id) {
  if (answer.skips_special_tokens && engine.IsSpecialToken(id)) return {};
  return engine.TokenBytes(id);
}

std::string TokenName(const Engine& engine, TokenId id, bool as_token_id) {
  if (as_token_id) return fmt::format("token_id:{}", id);
  std::string bytes = engine.TokenBytes(id);
  if (!text::ValidateUtf8(bytes)) return bytes;
  std::string name = "bytes:";
  for (const char byte : bytes) name += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return name;
}

void CompletionLogprobs::AddFirst(TokenId id) { entries_.push_back({id, nullptr}); }

void CompletionLogprobs::Add(std::span<const TokenLogprobs> tokens) {
  for (const TokenLogprobs& token : tokens) entries_.push_back({token.chosen.token_id, &token});
}

void CompletionLogprobs::Write(int64_t* text_offset, JsonWriter& json) const {
  json.BeginObject().Key("tokens").BeginArray();
  for (const Entry& entry : entries_) {
    json.String(TokenName(engine_, entry.id, answer_.tokens_as_token_ids));
  }
  json.EndArray().Key("token_logprobs").BeginArray();
  for (const Entry& entry : entries_) {
    if (entry.logprobs == nullptr) {
      json.Null();
    } else {
      json.Float(entry.logprobs->chosen.logprob);
    }
  }
  json.EndArray().Key("top_logprobs").BeginArray();
  for (const Entry& entry : entries_) {
    if (entry.logprobs == nullptr) {
      json.Null();
    } else {
      WriteTop(*entry.logprobs, json);
    }
  }
  json.EndArray().Key("text_offset").BeginArray();
  for (const Entry& entry : entries_) {
    json.Int(*text_offset);
    *text_offset += NumCharacters(TextBytes(engine_, answer_, entry.id));
  }
  json.EndArray().EndObject();
}

// The likeliest by name, and the chosen one.
void CompletionLogprobs::WriteTop(const TokenLogprobs& token, JsonWriter& json) const {
  std::set<std::string> names;
  const auto write = [&](const TokenLogprob& entry) {
    std::string name = TokenName(engine_, entry.token_id, answer_.tokens_as_token_ids);
    if (!names.insert(name).second) name = fmt::format("token_id:{}", entry.token_id);
    json.Key(name).Float(entry.logprob);
  };
  json.BeginObject();
  bool has_chosen = false;
  for (const TokenLogprob& entry : token.top) {
    has_chosen |= entry.token_id == token.chosen.token_id;
    write(entry);
  }
  if (!has_chosen) write(token.chosen);
  json.EndObject();
}

void WriteChatLogprobs(const Engine& engine, const AnswerOptions& answer,
                       std::span<const TokenLogprobs> tokens, JsonWriter& json) {
  json.BeginObject().Key("content").BeginArray();
  for (const TokenLogprobs& token : tokens) {
    json.BeginObject();
    WriteChatToken(engine, answer, token.chosen, json);
    json.Key("top_logprobs").BeginArray();
    for (const TokenLogprob& entry : token.top) {
      json.BeginObject();
      WriteChatToken(engine, answer, entry, json);
      json.EndObject();
    }
    json.EndArray().EndObject();
  }
  json.EndArray().EndObject();
}

void WritePromptLogprobs(const Engine& engine, const RequestOutput& output, JsonWriter& json) {
  json.BeginArray().Null();
  for (const TokenLogprobs& token : output.prompt_logprobs) {
    json.BeginObject();
    bool has_chosen = false;
    const auto write = [&](const TokenLogprob& entry) {
      json.Key(fmt::format("{}", entry.token_id)).BeginObject();
      json.Key("logprob").Float(entry.logprob);
      json.Member("rank", static_cast<int64_t>(entry.rank))
          .Member("decoded_token", text::ReplaceInvalidUtf8(engine.TokenBytes(entry.token_id)));
      json.EndObject();
    };
    for (const TokenLogprob& entry : token.top) {
      has_chosen |= entry.token_id == token.chosen.token_id;
      write(entry);
    }
    if (!has_chosen) write(token.chosen);
    json.EndObject();
  }
  json.EndArray();
}

void WriteStopReason(const StopReason& reason, JsonWriter& json) {
  if (const auto* text = std::get_if<std::string>(&reason)) {
    json.String(*text);
  } else if (const auto* id = std::get_if<TokenId>(&reason)) {
    json.Int(*id);
  } else {
    json.Null();
  }
}

void WriteFinishReason(FinishReason reason, JsonWriter& json) {
  if (reason == FinishReason::kNone) {
    json.Null();
  } else {
    json.String(FinishReasonName(reason));
  }
}

void WriteTokenIds(std::span<const TokenId> ids, JsonWriter& json) {
  json.BeginArray();
  for (const TokenId id : ids) json.Int(id);
  json.EndArray();
}

void WriteMetrics(const RequestOutput& output, JsonWriter& json) {
  const RequestTiming& timing = output.timing;
  const auto num_tokens = static_cast<double>(timing.token_s.size());
  const auto milliseconds = [&json](std::string_view key, double seconds) {
    json.Key(key).Double(seconds * 1e3);
  };
  json.BeginObject();
  milliseconds("time_to_first_token_ms", timing.ttft_s);
  milliseconds("generation_time_ms", timing.decode_s);
  milliseconds("queue_time_ms", timing.queued_s);
  milliseconds("mean_itl_ms", num_tokens > 1 ? timing.decode_s / (num_tokens - 1) : 0.0);
  json.Key("tokens_per_second")
      .Double(timing.decode_s > 0.0 ? (num_tokens - 1) / timing.decode_s : 0.0);
  json.Key("gen_ai.latency.time_in_queue").Double(timing.queued_s);
  json.Key("gen_ai.latency.time_to_first_token").Double(timing.ttft_s);
  json.Key("gen_ai.latency.time_in_model_prefill").Double(timing.prefill_s);
  json.Key("gen_ai.latency.time_in_model_decode").Double(timing.decode_s);
  json.Key("gen_ai.latency.e2e").Double(timing.ttft_s + timing.decode_s);
  json.EndObject();
}

void WriteBlockMembers(const kvcache::BlockExplanation& block, int64_t now_ms, JsonWriter& json) {
  json.Member("match", engine::BlockMatchName(block.match))
      .Member("num_cached_tokens", static_cast<int64_t>(block.num_cached_tokens));
  if (block.reason == kvcache::MissReason::kNone) {
    json.NullMember("reason");
  } else {
    json.Member("reason", engine::MissReasonName(block.reason));
  }
  if (block.reason == kvcache::MissReason::kEvicted) {
    json.Member("evicted_ms_ago", std::max<int64_t>(now_ms - block.evicted_at_ms, 0));
  }
  if (block.reason == kvcache::MissReason::kTokensDiffer) {
    json.Member("differs_at", block.differs_at);
  }
}

void WriteExplanation(const RequestOutput& output, JsonWriter& json) {
  const int64_t now_ms = engine::ExplanationClockMs();
  json.BeginArray();
  for (const kvcache::BlockExplanation& block : output.explanation) {
    json.BeginObject();
    WriteBlockMembers(block, now_ms, json);
    json.EndObject();
  }
  json.EndArray();
}

}  // namespace octavo::server
