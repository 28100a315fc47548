#include "server/chat_answer.h"

#include <fmt/format.h>

#include <utility>

#include "server/sse.h"

namespace octavo::server {
namespace {

constexpr std::string_view kChunk = "chat.completion.chunk";

}  // namespace

ChatAnswer::ChatAnswer(const Engine& engine, ChatCall call, AnswerHead head)
    : engine_(engine), call_(std::move(call)), head_(std::move(head)) {
  const Request& request = call_.requests.front();
  const int32_t num = request.beam_search ? request.beam_search->beam_width : request.params.n;
  for (int32_t i = 0; i < num; ++i) choices_.emplace_back(call_.tools);
  usage_.num_prompt_tokens = static_cast<int64_t>(request.prompt_token_ids.size());
  if (call_.answer.stream && call_.answer.return_token_ids) prompt_ = request.prompt_token_ids;
}

std::string ChatAnswer::Whole(std::span<const RequestOutput> outputs) {
  const RequestOutput& output = outputs.front();
  JsonWriter json;
  json.BeginObject();
  WriteAnswerHead(head_, "chat.completion", json);
  json.Key("choices").BeginArray();
  for (const CompletionOutput& completion : output.outputs) WriteChoice(completion, json);
  json.EndArray().Key("usage");
  Usage usage;
  usage.Add(output);
  WriteUsage(usage, json);
  if (call_.answer.include_metrics) {
    json.Key("metrics");
    WriteMetrics(output, json);
  }
  if (!output.prompt_logprobs.empty()) {
    json.Key("prompt_logprobs");
    WritePromptLogprobs(engine_, output, json);
  }
  if (call_.answer.return_token_ids) {
    json.Key("prompt_token_ids");
    WriteTokenIds(output.prompt_token_ids, json);
  }
  if (call_.answer.explain) {
    json.Key("explanation");
    WriteExplanation(output, json);
  }
  json.EndObject();
  return json.Take();
}

// REQUIRES: for kRequired, is_last only once.
ChatAnswer::Said ChatAnswer::SplitPiece(std::string_view text, bool is_last, Choice* choice) const {
  Said said;
  switch (call_.tools.choice) {
    case ToolChoice::kNone:
      said.content = text;
      break;
    case ToolChoice::kNamed:
      said.arguments = text;
      break;
    case ToolChoice::kAuto: {
      ToolCallSplitter::Part part = choice->splitter.Push(text, is_last);
      said.content = std::move(part.text);
      said.calls = std::move(part.calls);
      break;
    }
    case ToolChoice::kRequired:
      choice->required_text += text;
      if (!is_last) break;
      if (std::optional<std::vector<ToolCall>> calls =
              ParseToolCalls(choice->required_text, call_.tools)) {
        said.calls = *std::move(calls);
      } else {
        said.content = std::move(choice->required_text);  // cut off by max_tokens
      }
  }
  if (!call_.tools.parallel && !said.calls.empty()) {
    said.calls.resize(choice->num_calls == 0 ? 1 : 0);
  }
  return said;
}

void ChatAnswer::WriteChoice(const CompletionOutput& completion, JsonWriter& json) const {
  Choice choice(call_.tools);
  const Said said = SplitPiece(completion.text, /*is_last=*/true, &choice);
  json.BeginObject().Member("index", int64_t{completion.index}).Key("message");
  WriteMessage(said, completion.index, json);
  json.Key("logprobs");
  if (call_.answer.num_logprobs) {
    WriteChatLogprobs(engine_, call_.answer, completion.logprobs, json);
  } else {
    json.Null();
  }
  WriteFinish(completion.finish_reason, static_cast<int64_t>(said.calls.size()), json);
  json.Key("stop_reason");
  WriteStopReason(completion.stop_reason, json);
  if (call_.answer.return_token_ids) {
    json.Key("token_ids");
    WriteTokenIds(completion.token_ids, json);
  }
  json.EndObject();
}

void ChatAnswer::WriteMessage(const Said& said, int64_t choice, JsonWriter& json) const {
  const bool has_calls = !said.calls.empty() || call_.tools.choice == ToolChoice::kNamed;
  json.BeginObject().Member("role", "assistant").Key("content");
  if (has_calls && said.content.empty()) {
    json.Null();
  } else {
    json.String(said.content);
  }
  if (has_calls) {
    std::vector<ToolCall> calls = said.calls;
    if (call_.tools.choice == ToolChoice::kNamed) {
      calls.push_back({call_.tools.named, said.arguments});
    }
    json.Key("tool_calls").BeginArray();
    for (size_t i = 0; i < calls.size(); ++i) {
      json.BeginObject()
          .Member("id", CallId(choice, static_cast<int64_t>(i)))
          .Member("type", "function")
          .Key("function")
          .BeginObject()
          .Member("name", calls[i].name)
          .Member("arguments", calls[i].arguments)
          .EndObject()
          .EndObject();
    }
    json.EndArray();
  }
  json.EndObject();
}

// A forced function ends with the reason of its text, as OpenAI has it.
void ChatAnswer::WriteFinish(FinishReason reason, int64_t num_calls, JsonWriter& json) const {
  json.Key("finish_reason");
  if (num_calls > 0 && reason == FinishReason::kStop) {
    json.String("tool_calls");
  } else {
    WriteFinishReason(reason, json);
  }
}

std::string ChatAnswer::Events(std::span<const Generation::Piece> pieces) {
  std::string events;
  for (const Generation::Piece& piece : pieces) AppendChunk(piece.update, &events);
  return events;
}

void ChatAnswer::AppendChunk(const RequestUpdate& update, std::string* events) {
  Choice& choice = choices_[static_cast<size_t>(update.index)];
  const bool is_last = update.finish_reason != FinishReason::kNone;
  const Said said = SplitPiece(update.text, is_last, &choice);
  usage_.num_generation_tokens += static_cast<int64_t>(update.token_ids.size());
  const bool is_first = !std::exchange(choice.has_begun, true);
  const bool shows_tokens = call_.answer.num_logprobs || call_.answer.return_token_ids;
  if (!is_first && !is_last && !shows_tokens && said.content.empty() && said.calls.empty() &&
      said.arguments.empty()) {
    return;
  }
  JsonWriter json;
  json.BeginObject();
  WriteAnswerHead(head_, kChunk, json);
  json.Key("choices").BeginArray().BeginObject().Member("index", int64_t{update.index});
  json.Key("delta");
  WriteDelta(said, is_first, &choice, json);
  json.Key("logprobs");
  if (call_.answer.num_logprobs && !update.logprobs.empty()) {
    WriteChatLogprobs(engine_, call_.answer, update.logprobs, json);
  } else {
    json.Null();
  }
  WriteFinish(update.finish_reason, call_.tools.choice == ToolChoice::kNamed ? 0 : choice.num_calls,
              json);
  if (is_last) {
    json.Key("stop_reason");
    WriteStopReason(update.stop_reason, json);
  }
  if (call_.answer.return_token_ids) {
    json.Key("token_ids");
    WriteTokenIds(update.token_ids, json);
  }
  json.EndObject().EndArray();
  if (is_first && call_.answer.return_token_ids) {
    json.Key("prompt_token_ids");
    WriteTokenIds(prompt_, json);
  }
  WriteChunkUsage(call_.answer, usage_, json);
  json.EndObject();
  AppendEvent(json.text(), events);
}

void ChatAnswer::WriteDelta(const Said& said, bool is_first, Choice* choice,
                            JsonWriter& json) const {
  const int64_t choice_index = choice - choices_.data();
  json.BeginObject();
  if (is_first) json.Member("role", "assistant");
  if (is_first || !said.content.empty()) json.Member("content", said.content);
  std::vector<ToolCall> calls = said.calls;
  const bool goes_on = call_.tools.choice == ToolChoice::kNamed && choice->num_calls > 0;
  if (call_.tools.choice == ToolChoice::kNamed && !goes_on) {
    calls.push_back({call_.tools.named, said.arguments});
  }
  if (!calls.empty() || (goes_on && !said.arguments.empty())) {
    json.Key("tool_calls").BeginArray();
    for (const ToolCall& call : calls) {
      json.BeginObject()
          .Member("index", choice->num_calls)
          .Member("id", CallId(choice_index, choice->num_calls))
          .Member("type", "function")
          .Key("function")
          .BeginObject()
          .Member("name", call.name)
          .Member("arguments", call.arguments)
          .EndObject()
          .EndObject();
      ++choice->num_calls;
    }
    if (goes_on) {
      json.BeginObject()
          .Member("index", int64_t{0})
          .Key("function")
          .BeginObject()
          .Member("arguments", said.arguments)
          .EndObject()
          .EndObject();
    }
    json.EndArray();
  }
  json.EndObject();
}

std::string ChatAnswer::LastEvents(std::span<const RequestOutput> outputs) {
  Usage usage;
  usage.Add(outputs.front());
  return LastChunks(head_, kChunk, call_.answer, usage, outputs.front());
}

std::string ChatAnswer::CallId(int64_t choice, int64_t call) const {
  return fmt::format("call_{}_{}_{}", head_.id, choice, call);
}

}  // namespace octavo::server
