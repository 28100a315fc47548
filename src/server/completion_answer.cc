#include "server/completion_answer.h"

#include <string_view>
#include <utility>

#include "server/sse.h"

namespace octavo::server {
namespace {

constexpr std::string_view kObject = "text_completion";

// With max_tokens 0: the one token that was computed is not shown.
CompletionOutput OnlyEcho(int32_t index) {
  CompletionOutput nothing;
  nothing.index = index;
  nothing.finish_reason = FinishReason::kLength;
  return nothing;
}

RequestUpdate OnlyEcho(const RequestUpdate& update) {
  RequestUpdate nothing;
  nothing.index = update.index;
  if (update.finish_reason != FinishReason::kNone) nothing.finish_reason = FinishReason::kLength;
  return nothing;
}

}  // namespace

CompletionAnswer::CompletionAnswer(const Engine& engine, CompletionCall call, AnswerHead head)
    : engine_(engine), call_(std::move(call)), head_(std::move(head)) {
  const Request& first = call_.requests.front();
  num_completions_ = first.beam_search ? first.beam_search->beam_width : first.params.n;
  choices_.resize(call_.requests.size() * static_cast<size_t>(num_completions_));
  for (const Request& request : call_.requests) {
    usage_.num_prompt_tokens += static_cast<int64_t>(request.prompt_token_ids.size());
    if (call_.answer.stream && call_.answer.return_token_ids) {
      prompts_.push_back(request.prompt_token_ids);
    }
  }
}

std::string CompletionAnswer::Whole(std::span<const RequestOutput> outputs) {
  Usage usage;
  JsonWriter json;
  json.BeginObject();
  WriteAnswerHead(head_, kObject, json);
  json.Key("choices").BeginArray();
  for (size_t i = 0; i < outputs.size(); ++i) {
    usage.Add(outputs[i]);
    for (const CompletionOutput& completion : outputs[i].outputs) {
      if (call_.only_echo) {
        WriteChoice(outputs[i], OnlyEcho(completion.index), i, json);
      } else {
        WriteChoice(outputs[i], completion, i, json);
      }
    }
  }
  json.EndArray();
  if (call_.only_echo) usage.num_generation_tokens = 0;
  json.Key("usage");
  WriteUsage(usage, json);
  if (call_.answer.include_metrics) {
    json.Key("metrics");
    WriteMetrics(outputs.front(), json);
  }
  json.EndObject();
  return json.Take();
}

void CompletionAnswer::WriteChoice(const RequestOutput& output, const CompletionOutput& completion,
                                   size_t prompt_index, JsonWriter& json) const {
  json.BeginObject().Member("index", IndexOf(prompt_index, completion.index));
  const std::string prompt = call_.echo ? call_.echoed[prompt_index] : std::string();
  json.Member("text", prompt + completion.text).Key("logprobs");
  if (call_.answer.num_logprobs) {
    CompletionLogprobs logprobs(engine_, call_.answer);
    if (call_.echo) {
      logprobs.AddFirst(output.prompt_token_ids.front());
      logprobs.Add(output.prompt_logprobs);
    }
    logprobs.Add(completion.logprobs);
    int64_t offset = 0;
    logprobs.Write(&offset, json);
  } else {
    json.Null();
  }
  json.Key("finish_reason");
  WriteFinishReason(completion.finish_reason, json);
  json.Key("stop_reason");
  WriteStopReason(completion.stop_reason, json);
  if (call_.answer.return_token_ids) {
    json.Key("token_ids");
    WriteTokenIds(completion.token_ids, json);
    json.Key("prompt_token_ids");
    WriteTokenIds(output.prompt_token_ids, json);
  }
  if (!output.prompt_logprobs.empty() && !(call_.echo && call_.answer.num_logprobs)) {
    json.Key("prompt_logprobs");
    WritePromptLogprobs(engine_, output, json);
  }
  if (call_.answer.explain) {
    json.Key("explanation");
    WriteExplanation(output, json);
  }
  json.EndObject();
}

std::string CompletionAnswer::Events(std::span<const Generation::Piece> pieces) {
  std::string events;
  for (const Generation::Piece& piece : pieces) AppendChunk(piece, &events);
  return events;
}

void CompletionAnswer::AppendChunk(const Generation::Piece& piece, std::string* events) {
  const RequestUpdate echo_end = call_.only_echo ? OnlyEcho(piece.update) : RequestUpdate();
  const RequestUpdate& update = call_.only_echo ? echo_end : piece.update;
  const int64_t index = IndexOf(piece.prompt_index, update.index);
  Choice& choice = choices_[static_cast<size_t>(index)];
  usage_.num_generation_tokens += static_cast<int64_t>(update.token_ids.size());
  std::string text;
  if (call_.echo && !choice.has_begun) {
    text = call_.echoed[piece.prompt_index];
    choice.text_offset = NumCharacters(text);
  }
  text += update.text;
  const bool shows_tokens = call_.answer.num_logprobs || call_.answer.return_token_ids;
  // Text that is held back comes with a later piece; the first piece says that there is an answer.
  if (text.empty() && choice.has_begun && !shows_tokens &&
      update.finish_reason == FinishReason::kNone) {
    return;
  }
  const bool is_first = !std::exchange(choice.has_begun, true);

  JsonWriter json;
  json.BeginObject();
  WriteAnswerHead(head_, kObject, json);
  json.Key("choices").BeginArray().BeginObject().Member("index", index).Member("text", text);
  json.Key("logprobs");
  if (call_.answer.num_logprobs && !update.logprobs.empty()) {
    CompletionLogprobs logprobs(engine_, call_.answer);
    logprobs.Add(update.logprobs);
    logprobs.Write(&choice.text_offset, json);
  } else {
    json.Null();
  }
  json.Key("finish_reason");
  WriteFinishReason(update.finish_reason, json);
  json.Key("stop_reason");
  WriteStopReason(update.stop_reason, json);
  if (call_.answer.return_token_ids) {
    json.Key("token_ids");
    WriteTokenIds(update.token_ids, json);
    if (is_first) {
      json.Key("prompt_token_ids");
      WriteTokenIds(prompts_[piece.prompt_index], json);
    }
  }
  json.EndObject().EndArray();
  WriteChunkUsage(call_.answer, usage_, json);
  json.EndObject();
  AppendEvent(json.text(), events);
}

std::string CompletionAnswer::LastEvents(std::span<const RequestOutput> outputs) {
  Usage usage;
  for (const RequestOutput& output : outputs) usage.Add(output);
  if (call_.only_echo) usage.num_generation_tokens = 0;
  return LastChunks(head_, kObject, call_.answer, usage, outputs.front());
}

int64_t CompletionAnswer::IndexOf(size_t prompt_index, int32_t completion) const {
  return static_cast<int64_t>(prompt_index) * num_completions_ + completion;
}

}  // namespace octavo::server
