#pragma once

// Purpose:    JSON text, written from front to back.
// Ownership:  owns the text until Take.
// Threading:  one thread.
// Invariants: the text is valid UTF-8 (what is not becomes U+FFFD) and strict JSON: numbers that
//             are not finite become kLogprobFloor. The caller balances Begin and End.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace octavo::server {

// What stands for a log-probability of minus infinity.
inline constexpr double kLogprobFloor = -9999.0;

class JsonWriter {
 public:
  JsonWriter& BeginObject();
  JsonWriter& EndObject();
  JsonWriter& BeginArray();
  JsonWriter& EndArray();

  JsonWriter& Key(std::string_view key);
  JsonWriter& String(std::string_view text);
  JsonWriter& Int(int64_t value);
  JsonWriter& Float(float value);  // the shortest text that reads as the same float
  JsonWriter& Double(double value);
  JsonWriter& Bool(bool value);
  JsonWriter& Null();
  JsonWriter& Raw(std::string_view json);  // REQUIRES: one JSON value

  // Key and value.
  JsonWriter& Member(std::string_view key, std::string_view text) { return Key(key).String(text); }
  JsonWriter& Member(std::string_view key, const char* text) { return Key(key).String(text); }
  JsonWriter& Member(std::string_view key, int64_t value) { return Key(key).Int(value); }
  JsonWriter& Member(std::string_view key, bool value) { return Key(key).Bool(value); }
  JsonWriter& NullMember(std::string_view key) { return Key(key).Null(); }

  const std::string& text() const { return text_; }
  std::string Take() { return std::move(text_); }

 private:
  void BeginValue();

  std::string text_;
  bool needs_comma_ = false;
};

}  // namespace octavo::server
