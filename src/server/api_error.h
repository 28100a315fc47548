#pragma once

// Purpose:    an error as API clients see it: HTTP status and the body that OpenAI's and vLLM's
//             clients read, {"error": {"message", "type", "param", "code"}}.
// Ownership:  plain values.
// Threading:  plain data.
// Invariants: the message is one line of valid UTF-8; `type` follows from the status.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "octavo/status.h"
#include "server/http_message.h"

namespace octavo::server {

struct ApiError {
  int status = 400;
  std::string code;  // for programs: "invalid_value", "context_length_exceeded", ...
  std::string message;
  std::string param;  // the field at fault; empty = none
  // With "context_length_exceeded".
  std::optional<int64_t> num_prompt_tokens;
  std::optional<int64_t> max_model_len;

  // {"error": {...}}
  std::string Json() const;
  HttpResponse Response() const;
};

ApiError InvalidField(std::string param, std::string message);
ApiError NotFound(std::string code, std::string message);
ApiError TooManyRequests(std::string message);  // 429: later it may go
// What a Status of the engine means to a client: kInvalidArgument is the client's fault, the rest
// the server's.
ApiError FromStatus(const Status& status);

// A value or an ApiError.
template <typename T>
class ApiResult {
 public:
  ApiResult() = default;  // an error; asio's coroutines want one to begin with
  ApiResult(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  ApiResult(ApiError error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  const ApiError& error() const { return error_; }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  ApiError error_;
  std::optional<T> value_;
};

}  // namespace octavo::server
