#include "server/api_call.h"

#include <fmt/format.h>

#include <utility>

#include "server/request_id.h"

namespace octavo::server {

void ReadAnswerFields(JsonFields& fields, AnswerOptions* answer) {
  answer->stream = fields.Bool("stream").value_or(false);
  answer->return_token_ids = fields.Bool("return_token_ids").value_or(false);
  answer->tokens_as_token_ids = fields.Bool("return_tokens_as_token_ids").value_or(false);
  answer->include_metrics = fields.Bool("include_metrics").value_or(false);
  if (std::optional<std::string> id = fields.String("request_id", 128)) {
    if (!IsRequestId(*id)) fields.Fail("request_id", "made of letters, digits, '-', '_' and '.'");
    answer->request_id = *std::move(id);
  }
  const boost::json::object* options = fields.Object("stream_options");
  if (options == nullptr) return;
  if (!answer->stream) return fields.Fail("stream_options", "absent unless stream is true");
  JsonFields inner(*options, "stream_options.");
  answer->include_usage = inner.Bool("include_usage").value_or(false);
  answer->continuous_usage = inner.Bool("continuous_usage_stats").value_or(false);
  if (!inner.ok()) fields.Fail("stream_options", inner.error());
}

std::optional<ApiError> CheckRequests(const ApiCall& call, const Engine& engine) {
  for (const Request& request : call.requests) {
    if (const Status status = engine.Check(request); !status.ok()) return FromStatus(status);
  }
  return std::nullopt;
}

std::optional<ApiError> CheckContext(size_t num_prompt_tokens, int32_t max_model_len) {
  if (num_prompt_tokens < static_cast<size_t>(max_model_len)) return std::nullopt;
  ApiError error;
  error.code = "context_length_exceeded";
  error.message = fmt::format(
      "the prompt has {} tokens, but the context has {}, and at least 1 is for the answer",
      num_prompt_tokens, max_model_len);
  error.num_prompt_tokens = static_cast<int64_t>(num_prompt_tokens);
  error.max_model_len = max_model_len;
  return error;
}

}  // namespace octavo::server
