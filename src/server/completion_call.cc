#include "server/completion_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/sampling_fields.h"

namespace octavo::server {
namespace {

namespace json = boost::json;
using TokenIds = std::vector<TokenId>;

ApiResult<Prompt> ReadTokenIds(const json::array& array, std::string_view where,
                               const Engine& engine) {
  const int32_t vocab_size = engine.model_info().vocab_size;
  TokenIds ids;
  ids.reserve(array.size());
  for (size_t i = 0; i < array.size(); ++i) {
    const json::value& value = array[i];
    if (!value.is_int64() || value.get_int64() < 0 || value.get_int64() >= vocab_size) {
      return InvalidField("prompt", fmt::format("{}[{}] is {}, but must be a token id in [0, {}]",
                                                where, i, ShortJson(value), vocab_size - 1));
    }
    ids.push_back(static_cast<TokenId>(value.get_int64()));
  }
  if (ids.empty()) return InvalidField("prompt", fmt::format("{} is an empty array", where));
  return Prompt{std::move(ids), std::nullopt};
}

ApiResult<Prompt> ReadText(std::string_view text, std::string_view where,
                           const TokenizeOptions& options, const Engine& engine) {
  Result<TokenIds> ids = engine.Tokenize(text, options);
  if (!ids.ok()) return FromStatus(ids.status());
  if (ids->empty()) {
    return InvalidField(
        "prompt", fmt::format("{} is empty, and this model has no token to begin with", where));
  }
  return Prompt{*std::move(ids), std::string(text)};
}

// An element of a batch.
ApiResult<Prompt> ReadElement(const json::value& value, size_t index,
                              const TokenizeOptions& options, const Engine& engine) {
  const std::string where = fmt::format("prompt[{}]", index);
  if (value.is_string()) return ReadText(value.get_string(), where, options, engine);
  if (value.is_array()) return ReadTokenIds(value.get_array(), where, engine);
  return InvalidField("prompt", fmt::format("{} is {}, but must be a text or an array of token ids",
                                            where, ShortJson(value)));
}

// How the output is to be reported.
void ReadLogprobs(JsonFields& fields, CompletionCall* call, SamplingParams* params) {
  constexpr int64_t kMaxLogprobs = 20;
  const std::optional<int64_t> count = fields.Int("logprobs", 0, kMaxLogprobs);
  if (!count) return;
  call->answer.num_logprobs = static_cast<int32_t>(*count);
  params->logprobs = call->answer.num_logprobs;
  if (call->echo && !params->prompt_logprobs) params->prompt_logprobs = params->logprobs;
}

void CheckCombinations(JsonFields& fields, const CompletionCall& call, const Request& request) {
  if (fields.Find("suffix") != nullptr) fields.Fail("suffix", "absent: it is not supported");
  if (call.answer.stream && request.params.prompt_logprobs) {
    fields.Fail(call.echo ? "echo" : "prompt_logprobs",
                "absent when log-probabilities of the prompt are wanted and stream is true");
  }
  if (call.answer.stream && request.beam_search) {
    fields.Fail("use_beam_search", "false when stream is true");
  }
}

// What is kept and answered for each prompt and completion of a call: one client must not take all.
std::optional<ApiError> CheckSize(const std::vector<Prompt>& prompts, const Request& request,
                                  const CompletionCall& call) {
  constexpr uint64_t kMaxChoices = 2048;
  constexpr uint64_t kMaxBytes = 64 << 20;
  const auto num = static_cast<uint64_t>(request.beam_search ? request.beam_search->beam_width
                                                             : request.params.n);
  const uint64_t num_choices = prompts.size() * num;
  if (num_choices > kMaxChoices) {
    return InvalidField("n", fmt::format("{} prompts and n {} are {} choices, but {} are the most",
                                         prompts.size(), num, num_choices, kMaxChoices));
  }
  uint64_t bytes = num_choices * BytesOf(request.params);
  if (call.echo || call.answer.return_token_ids || request.params.prompt_logprobs) {
    const auto per_token =
        static_cast<uint64_t>(16 + 64 * (1 + request.params.prompt_logprobs.value_or(-1)));
    for (const Prompt& prompt : prompts) bytes += num * prompt.token_ids.size() * per_token;
  }
  if (bytes <= kMaxBytes) return std::nullopt;
  return InvalidField("prompt", fmt::format("parameters and what is to be reported of {} prompts "
                                            "and {} choices come to {} bytes, but {} are the most",
                                            prompts.size(), num_choices, bytes, kMaxBytes));
}

}  // namespace

TokenizeOptions ReadTokenizeOptions(JsonFields& fields) {
  TokenizeOptions options;
  options.add_special = fields.Bool("add_special_tokens").value_or(true);
  options.parse_special = fields.Bool("parse_special").value_or(true);
  return options;
}

ApiResult<std::vector<Prompt>> ReadPrompts(const json::value& prompt,
                                           const TokenizeOptions& options, size_t max_prompts,
                                           const Engine& engine) {
  std::vector<Prompt> prompts;
  const auto add = [&prompts](ApiResult<Prompt> read) -> std::optional<ApiError> {
    if (!read.ok()) return read.error();
    prompts.push_back(*std::move(read));
    return std::nullopt;
  };
  std::optional<ApiError> error;
  if (prompt.is_string()) {
    error = add(ReadText(prompt.get_string(), "prompt", options, engine));
  } else if (!prompt.is_array()) {
    return InvalidField(
        "prompt", fmt::format("prompt is {}, but must be a text, an array of texts, an array of "
                              "token ids or an array of such arrays",
                              ShortJson(prompt)));
  } else if (const json::array& array = prompt.get_array();
             array.empty() || array.front().is_number()) {
    error = add(ReadTokenIds(array, "prompt", engine));
  } else {
    if (array.size() > max_prompts) {
      return InvalidField("prompt", fmt::format("prompt is an array of {}, but {} are the most",
                                                array.size(), max_prompts));
    }
    for (size_t i = 0; i < array.size() && !error; ++i) {
      error = add(ReadElement(array[i], i, options, engine));
    }
  }
  if (error) return *error;
  return prompts;
}

ApiResult<CompletionCall> ParseCompletion(std::string_view body, const LimitOptions& limits,
                                          const Engine& engine) {
  const ApiResult<json::object> object = ParseObject(body, limits.max_json_depth);
  if (!object.ok()) return object.error();
  JsonFields fields(*object);
  CompletionCall call;
  call.model = fields.String("model", 1024).value_or("");
  ReadAnswerFields(fields, &call.answer);
  call.echo = fields.Bool("echo").value_or(false);
  const TokenizeOptions tokenize = ReadTokenizeOptions(fields);

  Request request;
  ReadSamplingFields(fields, &request.params);
  ReadMaxTokens(fields, "max_tokens", call.echo ? 0 : 1, &request.params);
  if (request.params.max_tokens == 0) {
    call.only_echo = true;
    request.params.max_tokens = 1;
  }
  ReadLogprobs(fields, &call, &request.params);
  ReadBeamSearch(fields, &request);
  ReadSharingFields(fields, &request);
  call.answer.explain = request.explain;
  call.answer.skips_special_tokens = request.params.skip_special_tokens;
  CheckCombinations(fields, call, request);
  const json::value* prompt = fields.Find("prompt");
  if (prompt == nullptr) fields.Fail("prompt", "a text or an array of token ids");
  if (!fields.ok()) return fields.error();

  ApiResult<std::vector<Prompt>> prompts =
      ReadPrompts(*prompt, tokenize, limits.max_prompts, engine);
  if (!prompts.ok()) return prompts.error();
  if (std::optional<ApiError> error = CheckSize(*prompts, request, call)) return *std::move(error);
  if (call.answer.stream && call.answer.explain && prompts->size() > 1) {
    return InvalidField("explain", "explain must be false when a stream has several prompts");
  }
  for (Prompt& read : *prompts) {
    if (std::optional<ApiError> error =
            CheckContext(read.token_ids.size(), engine.model_info().max_model_len)) {
      error->param = "prompt";
      return *std::move(error);
    }
    if (call.echo) {
      call.echoed.push_back(
          read.text ? *std::move(read.text)
                    : *engine.Detokenize(read.token_ids, request.params.skip_special_tokens));
    }
    call.requests.push_back(request);
    call.requests.back().prompt_token_ids = std::move(read.token_ids);
  }
  return call;
}

}  // namespace octavo::server
