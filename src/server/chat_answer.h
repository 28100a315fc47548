#pragma once

// Purpose:    the answers of /v1/chat/completions: one JSON object, or a stream of chunks.
// Ownership:  owns the call; borrows the engine.
// Threading:  the I/O thread.
// Invariants: the chunks' contents concatenate to the content of the whole answer, and their tool
//             calls are those of the whole answer.

#include <span>
#include <string>
#include <vector>

#include "octavo/engine.h"
#include "server/answer.h"
#include "server/answer_parts.h"
#include "server/chat_call.h"

namespace octavo::server {

class ChatAnswer : public Answer {
 public:
  ChatAnswer(const Engine& engine, ChatCall call, AnswerHead head);

  ApiCall& call() override { return call_; }
  std::string Whole(std::span<const RequestOutput> outputs) override;
  std::string Events(std::span<const Generation::Piece> pieces) override;
  std::string LastEvents(std::span<const RequestOutput> outputs) override;

 private:
  struct Choice {
    explicit Choice(const ToolOptions& tools) : splitter(tools) {}
    ToolCallSplitter splitter;
    std::string required_text;  // kRequired: parsed at the end
    int64_t num_calls = 0;
    bool has_begun = false;
  };
  // What a choice says next.
  struct Said {
    std::string content;
    std::vector<ToolCall> calls;
    std::string arguments;  // kNamed: of the one call, the next piece
  };

  Said SplitPiece(std::string_view text, bool is_last, Choice* choice) const;
  void WriteChoice(const CompletionOutput& completion, JsonWriter& json) const;
  void WriteMessage(const Said& said, int64_t choice, JsonWriter& json) const;
  void WriteFinish(FinishReason reason, int64_t num_calls, JsonWriter& json) const;
  void AppendChunk(const RequestUpdate& update, std::string* events);
  void WriteDelta(const Said& said, bool is_first, Choice* choice, JsonWriter& json) const;
  std::string CallId(int64_t choice, int64_t call) const;

  const Engine& engine_;
  ChatCall call_;
  const AnswerHead head_;
  std::vector<Choice> choices_;
  Usage usage_;
  std::vector<TokenId> prompt_;  // of a stream that shows it
};

}  // namespace octavo::server
