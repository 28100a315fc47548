#pragma once

// Purpose:    the answers of /v1/completions: one JSON object, or a stream of chunks.
// Ownership:  owns the call; borrows the engine.
// Threading:  the I/O thread.
// Invariants: the chunks' texts concatenate to the text of the whole answer; a chunk's choice has
//             the index prompt x n + completion.

#include <span>
#include <string>
#include <vector>

#include "octavo/engine.h"
#include "server/answer.h"
#include "server/answer_parts.h"
#include "server/completion_call.h"

namespace octavo::server {

class CompletionAnswer : public Answer {
 public:
  CompletionAnswer(const Engine& engine, CompletionCall call, AnswerHead head);

  ApiCall& call() override { return call_; }
  std::string Whole(std::span<const RequestOutput> outputs) override;
  std::string Events(std::span<const Generation::Piece> pieces) override;
  std::string LastEvents(std::span<const RequestOutput> outputs) override;

 private:
  struct Choice {
    int64_t text_offset = 0;  // in characters
    bool has_begun = false;
  };

  void WriteChoice(const RequestOutput& output, const CompletionOutput& completion,
                   size_t prompt_index, JsonWriter& json) const;
  void AppendChunk(const Generation::Piece& piece, std::string* events);
  int64_t IndexOf(size_t prompt_index, int32_t completion) const;

  const Engine& engine_;
  CompletionCall call_;
  const AnswerHead head_;
  int32_t num_completions_ = 1;  // per prompt
  std::vector<Choice> choices_;
  Usage usage_;
  std::vector<std::vector<TokenId>> prompts_;  // of a stream that shows them
};

}  // namespace octavo::server
