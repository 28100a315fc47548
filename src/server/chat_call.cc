#include "server/chat_call.h"

#include <utility>

#include "server/chat_input.h"
#include "server/sampling_fields.h"

namespace octavo::server {
namespace {

void ReadLogprobs(JsonFields& fields, ChatCall* call, SamplingParams* params) {
  constexpr int64_t kMaxLogprobs = 20;
  const bool wanted = fields.Bool("logprobs").value_or(false);
  const std::optional<int64_t> top = fields.Int("top_logprobs", 0, kMaxLogprobs);
  if (top.value_or(0) > 0 && !wanted) {
    return fields.Fail("top_logprobs", "0 or absent unless logprobs is true");
  }
  if (!wanted) return;
  call->answer.num_logprobs = static_cast<int32_t>(top.value_or(0));
  params->logprobs = call->answer.num_logprobs;
}

void ReadLength(JsonFields& fields, SamplingParams* params) {
  params->max_tokens.reset();
  ReadMaxTokens(fields, "max_tokens", 1, params);
  ReadMaxTokens(fields, "max_completion_tokens", 1, params);
}

}  // namespace

ApiResult<ChatCall> ParseChat(std::string_view body, const LimitOptions& limits,
                              const Engine& engine) {
  const ApiResult<boost::json::object> object = ParseObject(body, limits.max_json_depth);
  if (!object.ok()) return object.error();
  JsonFields fields(*object);
  ChatCall call;
  call.model = fields.String("model", 1024).value_or("");
  ReadAnswerFields(fields, &call.answer);
  Request request;
  ReadSamplingFields(fields, &request.params);
  ReadLength(fields, &request.params);
  ReadLogprobs(fields, &call, &request.params);
  ReadBeamSearch(fields, &request);
  ReadSharingFields(fields, &request);
  call.answer.explain = request.explain;
  call.answer.skips_special_tokens = request.params.skip_special_tokens;
  ReadToolFields(fields, &call.tools);
  ChatInput input;
  ReadChatInput(fields, &input);
  if (call.answer.stream && (request.beam_search || request.params.prompt_logprobs)) {
    fields.Fail("stream", "false with use_beam_search or prompt_logprobs");
  }
  if (std::optional<StructuredOutputs> constraint = call.tools.Constraint()) {
    if (request.params.structured_outputs) {
      fields.Fail("tool_choice", "\"auto\" or \"none\" when the output has another constraint");
    }
    request.params.structured_outputs = std::move(constraint);
  }
  if (!fields.ok()) return fields.error();
  if (call.tools.choice == ToolChoice::kNone) input.tools_json.clear();

  ApiResult<ChatPrompt> prompt = ApplyTemplate(engine, input);
  if (!prompt.ok()) return prompt.error();
  if (std::optional<ApiError> error =
          CheckContext(prompt->token_ids.size(), engine.model_info().max_model_len)) {
    error->param = "messages";
    return *std::move(error);
  }
  request.prompt_token_ids = std::move(prompt->token_ids);
  call.requests.push_back(std::move(request));
  return call;
}

}  // namespace octavo::server
