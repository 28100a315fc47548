#include "server/api_error.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <iterator>
#include <string_view>

#include "text/utf8.h"

namespace octavo::server {
namespace {

std::string_view TypeOf(int status) {
  switch (status) {
    case 400:
    case 413:
    case 415:
    case 431:
      return "BadRequestError";
    case 401:
      return "AuthenticationError";
    case 403:
      return "PermissionDeniedError";
    case 404:
    case 405:
      return "NotFoundError";
    case 408:
    case 429:
      return "RateLimitError";
    case 503:
      return "ServiceUnavailableError";
    default:
      return "InternalServerError";
  }
}

// The field that a message of the engine begins with: "top_p is 2, but must be ...".
std::string_view FieldOf(std::string_view message) {
  static constexpr std::string_view kFields[] = {"n",
                                                 "temperature",
                                                 "top_p",
                                                 "top_k",
                                                 "min_p",
                                                 "repetition_penalty",
                                                 "presence_penalty",
                                                 "frequency_penalty",
                                                 "logit_bias",
                                                 "allowed_token_ids",
                                                 "stop",
                                                 "stop_token_ids",
                                                 "max_tokens",
                                                 "min_tokens",
                                                 "logprobs",
                                                 "prompt_logprobs",
                                                 "cache_salt",
                                                 "pin_ttl_ms",
                                                 "beam_width",
                                                 "length_penalty",
                                                 "structured_outputs"};
  const size_t end = message.find_first_not_of("abcdefghijklmnopqrstuvwxyz_");
  const std::string_view word = message.substr(0, end);
  const bool is_word = end != std::string_view::npos &&
                       std::string_view(" [.").find(message[end]) != std::string_view::npos;
  return is_word && std::ranges::find(kFields, word) != std::end(kFields) ? word
                                                                          : std::string_view();
}

std::string OneLine(std::string_view text) {
  std::string line = text::ReplaceInvalidUtf8(text);
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return line;
}

}  // namespace

std::string ApiError::Json() const {
  boost::json::object error;
  error["message"] = OneLine(message);
  error["type"] = TypeOf(status);
  error["param"] = param.empty() ? boost::json::value() : boost::json::value(OneLine(param));
  error["code"] = code;
  if (num_prompt_tokens) error["n_prompt_tokens"] = *num_prompt_tokens;
  if (max_model_len) error["max_model_len"] = *max_model_len;
  return boost::json::serialize(boost::json::object{{"error", std::move(error)}});
}

HttpResponse ApiError::Response() const {
  HttpResponse response;
  response.status = status;
  response.body = Json();
  if (status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (status == 429 || status == 503) response.headers.emplace_back("Retry-After", "1");
  return response;
}

ApiError InvalidField(std::string param, std::string message) {
  ApiError error;
  error.code = "invalid_value";
  error.message = std::move(message);
  error.param = std::move(param);
  return error;
}

ApiError NotFound(std::string code, std::string message) {
  ApiError error;
  error.status = 404;
  error.code = std::move(code);
  error.message = std::move(message);
  return error;
}

ApiError TooManyRequests(std::string message) {
  ApiError error;
  error.status = 429;
  error.code = "rate_limit_exceeded";
  error.message = std::move(message);
  return error;
}

ApiError FromStatus(const Status& status) {
  ApiError error;
  error.message = status.message();
  if (status.code() == StatusCode::kInvalidArgument) error.param = FieldOf(status.message());
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnimplemented:
    case StatusCode::kNotFound:
      error.code = "invalid_value";
      break;
    case StatusCode::kResourceExhausted:
    case StatusCode::kUnavailable:
      error.status = 503;
      error.code = "unavailable";
      break;
    default:
      error.status = 500;
      error.code = "internal_error";
  }
  return error;
}

}  // namespace octavo::server
