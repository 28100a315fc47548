#pragma once

// Purpose:    what the answers of both APIs are made of: tokens as text, log-probabilities, usage,
//             times.
// Ownership:  none; borrows the engine for a call.
// Threading:  any thread.
// Invariants: every text is valid UTF-8, and two tokens of one list never have the same name.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "octavo/engine.h"
#include "server/api_call.h"
#include "server/json_writer.h"

namespace octavo::server {

// In code points, as Python counts them. REQUIRES: valid UTF-8, or whole tokens of it.
int64_t NumCharacters(std::string_view text);

struct Usage {
  int64_t num_prompt_tokens = 0;
  int64_t num_cached_tokens = 0;
  int64_t num_generation_tokens = 0;

  void Add(const RequestOutput& output);
};
void WriteUsage(const Usage& usage, JsonWriter& json);

// What the token adds to the answer's text, as far as it is one by itself.
std::string TextBytes(const Engine& engine, const AnswerOptions& answer, TokenId id);

// id, object, created, model.
void WriteAnswerHead(const AnswerHead& head, std::string_view object, JsonWriter& json);

// A chunk's usage: what came so far, null, or nothing, as was asked for.
void WriteChunkUsage(const AnswerOptions& answer, const Usage& so_far, JsonWriter& json);

// What a stream ends with: a chunk without choices for what belongs to all of it (usage, times,
// explanation), if asked for, and the end.
std::string LastChunks(const AnswerHead& head, std::string_view object, const AnswerOptions& answer,
                       const Usage& usage, const RequestOutput& first_output);

// The token as a name: its text; "bytes:\xe2\x80" if that is not text; "token_id:N" if asked for.
std::string TokenName(const Engine& engine, TokenId id, bool as_token_id);

// {"tokens", "token_logprobs", "top_logprobs", "text_offset"} of /v1/completions.
class CompletionLogprobs {
 public:
  CompletionLogprobs(const Engine& engine, const AnswerOptions& answer)
      : engine_(engine), answer_(answer) {}

  // A token without a prediction: the first of a prompt.
  void AddFirst(TokenId id);
  void Add(std::span<const TokenLogprobs> tokens);
  // `text_offset` is where the first token's text begins, in characters; becomes where the next
  // one's would.
  void Write(int64_t* text_offset, JsonWriter& json) const;

 private:
  struct Entry {
    TokenId id = kNoToken;
    const TokenLogprobs* logprobs = nullptr;
  };
  void WriteTop(const TokenLogprobs& token, JsonWriter& json) const;

  const Engine& engine_;
  const AnswerOptions& answer_;
  std::vector<Entry> entries_;
};

// {"content": [...]} of chat.
void WriteChatLogprobs(const Engine& engine, const AnswerOptions& answer,
                       std::span<const TokenLogprobs> tokens, JsonWriter& json);

// vLLM's prompt_logprobs: null, then an object by token id for each token.
void WritePromptLogprobs(const Engine& engine, const RequestOutput& output, JsonWriter& json);

// A stop string, a stop token id, or null.
void WriteStopReason(const StopReason& reason, JsonWriter& json);

// "stop", "length", ...; null while it runs.
void WriteFinishReason(FinishReason reason, JsonWriter& json);

void WriteTokenIds(std::span<const TokenId> ids, JsonWriter& json);

// Times of the request: vLLM's names in ms, and OpenTelemetry's in s.
void WriteMetrics(const RequestOutput& output, JsonWriter& json);

// Per block of the prompt, what the cache held.
void WriteExplanation(const RequestOutput& output, JsonWriter& json);
// The members of one block. `now_ms`: engine::ExplanationClockMs.
void WriteBlockMembers(const kvcache::BlockExplanation& block, int64_t now_ms, JsonWriter& json);

}  // namespace octavo::server
