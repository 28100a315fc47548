#include "jinja/json_input.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "jinja/unicode.h"

namespace octavo::jinja {
namespace {

class JsonReader {
 public:
  JsonReader(Execution& execution, std::string_view json) : execution_(execution), json_(json) {}

  Value Document() {
    Value value = ReadValue(0);
    SkipSpace();
    if (!failed() && at_ != json_.size()) Fail("something follows the value");
    return value;
  }
  bool failed() const { return !error_.empty(); }
  const std::string& error() const { return error_; }

 private:
  void Fail(std::string_view message) {
    if (!failed()) error_ = fmt::format("{} at byte {}", message, at_);
    at_ = json_.size();
  }

  void SkipSpace() {
    while (at_ < json_.size() &&
           std::string_view(" \t\r\n").find(json_[at_]) != std::string::npos) {
      ++at_;
    }
  }
  char Peek() const { return at_ < json_.size() ? json_[at_] : '\0'; }
  bool Accept(char c) {
    SkipSpace();
    if (Peek() != c || at_ == json_.size()) return false;
    ++at_;
    return true;
  }

  Value ReadValue(int32_t depth) {
    SkipSpace();
    if (depth > kMaxJsonDepth) Fail(fmt::format("nested deeper than {}", kMaxJsonDepth));
    if (execution_.failed()) Fail(execution_.status().message());
    if (failed()) return Value();
    switch (Peek()) {
      case '{':
        return ReadObject(depth);
      case '[':
        return ReadArray(depth);
      case '"':
        return Value::Untrusted(ReadString());
      case 't':
        return ReadWord("true", Value::Bool(true));
      case 'f':
        return ReadWord("false", Value::Bool(false));
      case 'n':
        return ReadWord("null", Value::None());
      default:
        return ReadNumber();
    }
  }

  Value ReadWord(std::string_view word, Value value) {
    if (json_.substr(at_, word.size()) != word) {
      Fail("not a JSON value");
      return Value();
    }
    at_ += word.size();
    return value;
  }

  Value ReadObject(int32_t depth) {
    ++at_;
    DictBuilder dict(execution_);
    if (Accept('}')) return dict.Take();
    do {
      SkipSpace();
      if (Peek() != '"') {
        Fail("a key in quotes is missing");
        return Value();
      }
      Value key = Value::Untrusted(ReadString());
      if (!failed() && !Accept(':')) Fail("':' is missing");
      dict.Set(std::move(key), ReadValue(depth + 1));
    } while (!failed() && Accept(','));
    if (!failed() && !Accept('}')) Fail("',' or '}' is missing");
    return dict.Take();
  }

  Value ReadArray(int32_t depth) {
    ++at_;
    std::vector<Value> items;
    if (Accept(']')) return MakeList(execution_, std::move(items));
    do {
      items.push_back(ReadValue(depth + 1));
    } while (!failed() && Accept(','));
    if (!failed() && !Accept(']')) Fail("',' or ']' is missing");
    return MakeList(execution_, std::move(items));
  }

  std::string ReadString() {
    std::string text;
    ++at_;
    while (at_ < json_.size()) {
      const size_t plain = at_;
      while (at_ < json_.size() && json_[at_] != '"' && json_[at_] != '\\' &&
             static_cast<unsigned char>(json_[at_]) >= 0x20) {
        ++at_;
      }
      text.append(json_.substr(plain, at_ - plain));
      if (Peek() == '"') {
        ++at_;
        return text;
      }
      if (Peek() != '\\') break;
      ReadEscape(&text);
    }
    Fail(at_ < json_.size() ? "a control character in a string" : "a string without end");
    return text;
  }

  void ReadEscape(std::string* text) {
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    ++at_;
    const char name = Peek();
    if (name != 'u') {
      const size_t found = at_ < json_.size() ? kNames.find(name) : std::string_view::npos;
      if (found == std::string_view::npos) return Fail("an unknown escape");
      text->push_back(kMeanings[found]);
      ++at_;
      return;
    }
    ++at_;
    int32_t code_point = ReadHex();
    if (code_point >= 0xD800 && code_point < 0xDC00 && json_.substr(at_, 2) == "\\u") {
      at_ += 2;
      const int32_t low = ReadHex();
      if (low < 0xDC00 || low > 0xDFFF) return Fail("a lone surrogate");
      code_point = 0x10000 + ((code_point - 0xD800) << 10) + (low - 0xDC00);
    } else if (code_point >= 0xD800 && code_point < 0xE000) {
      return Fail("a lone surrogate");
    }
    if (!failed()) AppendUtf8(code_point, text);
  }

  int32_t ReadHex() {
    int32_t value = 0;
    const std::string_view digits = json_.substr(std::min(at_, json_.size()), 4);
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() < 4 || end.ptr != digits.data() + 4 || digits[0] == '-') {
      Fail("\\u without four hexadecimal digits");
      return 0;
    }
    at_ += 4;
    return value;
  }

  size_t SkipDigits() {
    const size_t begin = at_;
    while (Peek() >= '0' && Peek() <= '9') ++at_;
    return at_ - begin;
  }

  Value ReadNumber() {
    const size_t begin = at_;
    if (Peek() == '-') ++at_;
    const bool leading_zero = Peek() == '0';
    const size_t num_digits = SkipDigits();
    bool good = num_digits > 0 && !(leading_zero && num_digits > 1);
    bool is_float = false;
    if (Peek() == '.') {
      is_float = true;
      ++at_;
      good = SkipDigits() > 0 && good;
    }
    if (Peek() == 'e' || Peek() == 'E') {
      is_float = true;
      ++at_;
      if (Peek() == '+' || Peek() == '-') ++at_;
      good = SkipDigits() > 0 && good;
    }
    const char* first = json_.data() + begin;
    const char* last = json_.data() + at_;
    int64_t integer = 0;
    double number = 0;
    if (!good) {
      at_ = begin;
      Fail("not a JSON value");
    } else if (!is_float) {
      if (std::from_chars(first, last, integer).ec != std::errc()) {
        Fail("an integer of more than 64 bits");
      }
      return Value::Int(integer);
    } else {
      const bool in_range = std::from_chars(first, last, number).ec == std::errc();
      if (!in_range || std::isinf(number)) Fail("a number out of range");
    }
    return Value::Float(number);
  }

  Execution& execution_;
  std::string_view json_;
  size_t at_ = 0;
  std::string error_;
};

}  // namespace

Result<Value> ParseJson(Execution& execution, std::string_view json, std::string_view what) {
  if (!IsValidUtf8(json)) {
    return Status::InvalidArgument(std::string(what) + ": the JSON text is not UTF-8");
  }
  JsonReader reader(execution, json);
  Value value = reader.Document();
  if (execution.failed()) return execution.status();
  if (reader.failed()) return Status::InvalidArgument(std::string(what) + ": " + reader.error());
  return value;
}

}  // namespace octavo::jinja
