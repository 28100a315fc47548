#pragma once

// Purpose:    how octavo reports an error of the environment or of the caller: a code and one line
//             of text that names the file or option, the value and the limit. Bugs are CHECKs,
//             expected outcomes (no free block, no prefix hit) are optionals or enums; neither is a
//             Status.
// Ownership:  values; a Status owns its message.
// Threading:  immutable after construction; safe to read from any thread.
// Invariants: an OK status has an empty message; a Result holds a value if and only if its status
//             is OK.

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace octavo {

enum class StatusCode {
  kOk = 0,
  // The caller gave a value outside its limits (exit code 2 on the command line).
  kInvalidArgument,
  kNotFound,           // a file or a named thing does not exist
  kDataLoss,           // a file is truncated, corrupt or inconsistent
  kUnimplemented,      // well-formed, but this version does not support it
  kResourceExhausted,  // it cannot fit into the memory that it may use
  kUnavailable,        // the machine lacks something that is needed
  kCancelled,          // the caller stopped it
  kInternal,           // an invariant failed outside the caller's control
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status Ok() { return Status(); }
  static Status InvalidArgument(std::string message) {
    return Status(StatusCode::kInvalidArgument, std::move(message));
  }
  static Status NotFound(std::string message) {
    return Status(StatusCode::kNotFound, std::move(message));
  }
  static Status DataLoss(std::string message) {
    return Status(StatusCode::kDataLoss, std::move(message));
  }
  static Status Unimplemented(std::string message) {
    return Status(StatusCode::kUnimplemented, std::move(message));
  }
  static Status ResourceExhausted(std::string message) {
    return Status(StatusCode::kResourceExhausted, std::move(message));
  }
  static Status Unavailable(std::string message) {
    return Status(StatusCode::kUnavailable, std::move(message));
  }
  static Status Cancelled(std::string message) {
    return Status(StatusCode::kCancelled, std::move(message));
  }
  static Status Internal(std::string message) {
    return Status(StatusCode::kInternal, std::move(message));
  }

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

// A value, or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  // REQUIRES: ok()
  T& value() & { return value_.value(); }
  const T& value() const& { return value_.value(); }
  T&& value() && { return std::move(value_).value(); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace octavo
