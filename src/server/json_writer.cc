#include "server/json_writer.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "text/utf8.h"

namespace octavo::server {
namespace {

// The character at the beginning, if it ends a line for some readers of streams: U+0085, U+2028 or
// U+2029.
std::string_view LineEnd(std::string_view text) {
  for (const std::string_view end : {"\xc2\x85", "\xe2\x80\xa8", "\xe2\x80\xa9"}) {
    if (text.starts_with(end)) return end;
  }
  return {};
}

void AppendEscaped(std::string_view text, std::string* out) {
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool is_ascii = static_cast<unsigned char>(c) < 0x80;
    const std::string_view end = is_ascii ? std::string_view() : LineEnd(text.substr(i));
    if (!end.empty()) {
      out->append(text, begin, i - begin);
      *out += end.size() == 2 ? "\\u0085" : end.back() == '\xa8' ? "\\u2028" : "\\u2029";
      i += end.size() - 1;
      begin = i + 1;
      continue;
    }
    if (static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\') continue;
    out->append(text, begin, i - begin);
    begin = i + 1;
    switch (c) {
      case '"':
      case '\\':
        *out += '\\';
        *out += c;
        break;
      case '\n':
        *out += "\\n";
        break;
      case '\r':
        *out += "\\r";
        break;
      case '\t':
        *out += "\\t";
        break;
      default:
        fmt::format_to(std::back_inserter(*out), "\\u{:04x}", static_cast<unsigned>(c));
    }
  }
  out->append(text, begin);
}

}  // namespace

void JsonWriter::BeginValue() {
  if (needs_comma_) text_ += ',';
  needs_comma_ = true;
}

JsonWriter& JsonWriter::BeginObject() {
  BeginValue();
  text_ += '{';
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::EndObject() {
  text_ += '}';
  needs_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::BeginArray() {
  BeginValue();
  text_ += '[';
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::EndArray() {
  text_ += ']';
  needs_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  String(key);
  text_ += ':';
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::String(std::string_view text) {
  BeginValue();
  text_ += '"';
  if (text::ValidateUtf8(text)) {
    AppendEscaped(text::ReplaceInvalidUtf8(text), &text_);
  } else {
    AppendEscaped(text, &text_);
  }
  text_ += '"';
  return *this;
}

JsonWriter& JsonWriter::Int(int64_t value) {
  BeginValue();
  fmt::format_to(std::back_inserter(text_), "{}", value);
  return *this;
}

JsonWriter& JsonWriter::Float(float value) {
  BeginValue();
  if (std::isfinite(value)) {
    fmt::format_to(std::back_inserter(text_), "{}", value);
  } else {
    fmt::format_to(std::back_inserter(text_), "{:.1f}", kLogprobFloor);
  }
  return *this;
}

JsonWriter& JsonWriter::Double(double value) {
  BeginValue();
  fmt::format_to(std::back_inserter(text_), "{}", std::isfinite(value) ? value : kLogprobFloor);
  return *this;
}

JsonWriter& JsonWriter::Bool(bool value) {
  BeginValue();
  text_ += value ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::Null() {
  BeginValue();
  text_ += "null";
  return *this;
}

JsonWriter& JsonWriter::Raw(std::string_view json) {
  BeginValue();
  text_ += json;
  return *this;
}

}  // namespace octavo::server
