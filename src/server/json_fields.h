#pragma once

// Purpose:    reads the fields of a JSON object from outside: each with its type and its range.
// Ownership:  borrows the object.
// Threading:  one thread.
// Invariants: absent and null are the same. The first field at fault is reported, by name, with
//             its value and its limit; later reads return nothing.

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "server/api_error.h"

namespace octavo::server {

// The object that `body` spells; kInvalid JSON, too deep or not an object is an error.
ApiResult<boost::json::object> ParseObject(std::string_view body, size_t max_depth);

class JsonFields {
 public:
  // `path` is put in front of the fields' names: "stream_options.".
  explicit JsonFields(const boost::json::object& object, std::string path = {})
      : object_(object), path_(std::move(path)) {}

  // Null if absent.
  const boost::json::value* Find(std::string_view name) const;

  std::optional<bool> Bool(std::string_view name);
  // A whole number; 5.0 is one.
  std::optional<int64_t> Int(std::string_view name, int64_t low, int64_t high);
  // The same, but what is above `high` becomes `high`.
  std::optional<int64_t> ClampedInt(std::string_view name, int64_t low, int64_t high);
  std::optional<double> Number(std::string_view name);
  std::optional<std::string> String(std::string_view name, size_t max_bytes);
  const boost::json::array* Array(std::string_view name);
  const boost::json::object* Object(std::string_view name);

  void Fail(std::string_view name, std::string_view what);
  // What is wrong with a field that was read as an object of its own.
  void Fail(std::string_view name, const ApiError& error);
  bool ok() const { return !error_.has_value(); }
  const ApiError& error() const { return *error_; }

 private:
  std::optional<int64_t> WholeNumber(std::string_view name, int64_t low, int64_t high, bool clamps);

  const boost::json::object& object_;
  std::string path_;
  std::optional<ApiError> error_;
};

// A value in a message: as JSON, cut to a length that can be read.
std::string ShortJson(const boost::json::value& value);

}  // namespace octavo::server
