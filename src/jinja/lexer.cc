#include "jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "jinja/string_escapes.h"
#include "jinja/unicode.h"

namespace octavo::jinja {
namespace {

std::string NormalizedLines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      text += source[i];
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

bool IsNameStart(char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameByte(char c) { return IsNameStart(c) || IsDigit(c); }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  void Run() {
    while (error_.empty() && at_ < source_.size()) LexData();
    tokens_.push_back({.type = TokenType::kEnd, .line = line_, .text = {}});
  }

  const std::string& error() const { return error_; }
  int32_t line() const { return line_; }
  std::vector<Token> TakeTokens() { return std::move(tokens_); }

 private:
  char At(size_t at) const { return at < source_.size() ? source_[at] : '\0'; }
  bool Starts(size_t at, std::string_view text) const {
    return source_.substr(std::min(at, source_.size()), text.size()) == text;
  }
  void Fail(std::string message) {
    if (error_.empty()) error_ = std::move(message);
    at_ = source_.size();
  }
  size_t SkipSpace(size_t at) const {
    while (at < source_.size() && IsSpace(CodePointAt(source_, at))) {
      at += CharacterBytes(source_, at);
    }
    return at;
  }
  // Moves to `end`, counting lines.
  void MoveTo(size_t end) {
    line_ +=
        static_cast<int32_t>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                        source_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    line_starting_ = end > at_ ? source_[end - 1] == '\n' : line_starting_;
    at_ = end;
  }
  void Push(TokenType type, std::string text) {
    tokens_.push_back({.type = type, .line = line_, .text = std::move(text)});
  }

  // Emits source [at_, end) as text in front of a tag with this sign.
  void PushData(size_t end, char sign, bool is_variable) {
    std::string_view text = source_.substr(at_, end - at_);
    if (sign == '-') {
      while (!text.empty()) {
        const size_t last = CharacterBefore(text, text.size());
        if (!IsSpace(CodePointAt(text, last))) break;
        text = text.substr(0, last);
      }
    } else if (sign != '+' && !is_variable) {
      const size_t line_begin = text.rfind('\n') + 1;  // npos + 1 = 0
      const bool begins_line = line_begin > 0 || line_starting_;
      if (begins_line && SkipSpace(at_ + line_begin) >= at_ + text.size()) {
        text = text.substr(0, line_begin);
      }
    }
    if (!text.empty()) Push(TokenType::kData, std::string(text));
  }

  // The next "{%", "{{" or "{#", or the end.
  size_t FindTag(size_t from) const {
    for (size_t at = source_.find('{', from); at != std::string_view::npos;
         at = source_.find('{', at + 1)) {
      const char next = At(at + 1);
      if (next == '%' || next == '{' || next == '#') return at;
    }
    return source_.size();
  }

  static char Sign(char c) { return c == '-' || c == '+' ? c : '\0'; }

  void LexData() {
    const size_t tag = FindTag(at_);
    if (tag == source_.size()) {
      Push(TokenType::kData, std::string(source_.substr(at_)));
      return MoveTo(tag);
    }
    const char kind = At(tag + 1);
    const char sign = Sign(At(tag + 2));
    PushData(tag, sign, kind == '{');
    MoveTo(tag);
    const size_t inside = tag + (sign != '\0' ? 3 : 2);
    if (kind == '#') return LexComment(inside);
    if (kind == '%') {
      if (const size_t raw_end = MatchRawBegin(inside)) return LexRaw(raw_end);
    }
    Push(kind == '%' ? TokenType::kBlockBegin : TokenType::kVariableBegin, {});
    MoveTo(inside);
    LexTag(kind == '%');
  }

  void LexComment(size_t inside) {
    const size_t close = source_.find("#}", inside);
    if (close == std::string_view::npos) return Fail("Missing end of comment tag");
    const char sign = close > inside ? Sign(source_[close - 1]) : '\0';
    MoveTo(AfterClose(close + 2, sign));
  }

  // Behind "%}" or "#}": `-` takes all white space, no sign one line feed.
  size_t AfterClose(size_t behind, char sign) const {
    if (sign == '-') return SkipSpace(behind);
    return sign == '\0' && At(behind) == '\n' ? behind + 1 : behind;
  }

  // The offset behind "raw %}" if that stands at `at`, or 0.
  size_t MatchRawBegin(size_t at) const {
    at = SkipSpace(at);
    if (!Starts(at, "raw")) return 0;
    at = SkipSpace(at + 3);
    if (Starts(at, "-%}")) return SkipSpace(at + 3);
    return Starts(at, "%}") ? at + 2 : 0;
  }

  void LexRaw(size_t inside) {
    MoveTo(inside);
    for (size_t at = source_.find("{%", at_); at != std::string_view::npos;
         at = source_.find("{%", at + 1)) {
      const char sign = Sign(At(at + 2));
      size_t end = SkipSpace(at + (sign != '\0' ? 3 : 2));
      if (!Starts(end, "endraw")) continue;
      end = SkipSpace(end + 6);
      const char close = Sign(At(end));
      if (close != '\0') ++end;
      if (!Starts(end, "%}")) continue;
      PushData(at, sign, false);
      return MoveTo(AfterClose(end + 2, close));
    }
    Fail("Missing end of raw directive");
  }

  void LexTag(bool is_block) {
    balance_.clear();
    while (error_.empty()) {
      MoveTo(SkipSpace(at_));
      if (at_ >= source_.size()) return Fail("a tag without end");
      if (balance_.empty() && LexTagEnd(is_block)) return;
      LexToken();
    }
  }

  bool LexTagEnd(bool is_block) {
    const char sign = is_block ? Sign(At(at_)) : (At(at_) == '-' ? '-' : '\0');
    const size_t close = at_ + (sign != '\0' ? 1 : 0);
    if (!Starts(close, is_block ? "%}" : "}}")) return false;
    Push(is_block ? TokenType::kBlockEnd : TokenType::kVariableEnd, {});
    if (is_block) {
      MoveTo(AfterClose(close + 2, sign));
    } else {
      MoveTo(sign == '-' ? SkipSpace(close + 2) : close + 2);
    }
    return true;
  }

  void LexToken() {
    const char c = source_[at_];
    if (IsDigit(c)) return LexNumber();
    if (IsNameStart(c)) {
      size_t end = at_;
      while (IsNameByte(At(end))) ++end;
      if (static_cast<unsigned char>(At(end)) >= 0x80) {
        return Fail("names of other letters than ASCII are not supported");
      }
      Push(TokenType::kName, std::string(source_.substr(at_, end - at_)));
      return MoveTo(end);
    }
    if (c == '\'' || c == '"') return LexString(c);
    LexOperator();
  }

  void LexString(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return Fail("a string without end");
    std::string text;
    const std::string problem = Unescape(source_.substr(at_ + 1, end - at_ - 1), &text);
    if (!problem.empty()) return Fail(problem);
    Push(TokenType::kString, std::move(text));
    MoveTo(end + 1);
  }

  // Digits with single underscores between them; the offset behind.
  size_t SkipDigits(size_t at) const {
    while (IsDigit(At(at)) || (At(at) == '_' && IsDigit(At(at + 1)))) ++at;
    return at;
  }

  void LexNumber() {
    size_t end = SkipDigits(at_);
    bool is_float = false;
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
    if (!after_dot && At(end) == '.' && IsDigit(At(end + 1))) {
      is_float = true;
      end = SkipDigits(end + 1);
    }
    if (!after_dot && (At(end) == 'e' || At(end) == 'E')) {
      const size_t digits = end + (At(end + 1) == '+' || At(end + 1) == '-' ? 2 : 1);
      if (IsDigit(At(digits))) {
        is_float = true;
        end = SkipDigits(digits);
      }
    }
    if (IsNameByte(At(end))) return Fail("numbers are decimal, and end before a letter");
    std::string digits(source_.substr(at_, end - at_));
    std::erase(digits, '_');
    Token token{
        .type = is_float ? TokenType::kFloat : TokenType::kInteger, .line = line_, .text = digits};
    const char* last = digits.data() + digits.size();
    const auto parsed = is_float ? std::from_chars(digits.data(), last, token.number)
                                 : std::from_chars(digits.data(), last, token.integer);
    if (parsed.ec != std::errc()) return Fail("the number " + digits + " is out of range");
    if (!is_float && digits.size() > 1 && digits[0] == '0' && token.integer != 0) {
      return Fail("a number that begins with 0");
    }
    tokens_.push_back(std::move(token));
    MoveTo(end);
  }

  void LexOperator() {
    constexpr std::string_view kTwo[] = {"//", "**", "==", "!=", ">=", "<="};
    constexpr std::string_view kOne = "+-/*%~[](){}><=.:|,;";
    for (const std::string_view two : kTwo) {
      if (!Starts(at_, two)) continue;
      Push(TokenType::kOperator, std::string(two));
      return MoveTo(at_ + 2);
    }
    const char c = source_[at_];
    if (kOne.find(c) == std::string_view::npos) {
      return Fail(fmt::format("unexpected character at byte {} of the template", at_));
    }
    if (c == '(' || c == '[' || c == '{') {
      balance_.push_back(c == '(' ? ')' : (c == '[' ? ']' : '}'));
    } else if (c == ')' || c == ']' || c == '}') {
      if (balance_.empty() || balance_.back() != c) return Fail(fmt::format("unexpected '{}'", c));
      balance_.pop_back();
    }
    Push(TokenType::kOperator, std::string(1, c));
    MoveTo(at_ + 1);
  }

  std::string_view source_;
  size_t at_ = 0;
  int32_t line_ = 1;
  bool line_starting_ = true;
  std::string balance_;  // the brackets that must close
  std::vector<Token> tokens_;
  std::string error_;
};

}  // namespace

Result<std::vector<Token>> Tokenize(std::string_view source) {
  if (!IsValidUtf8(source)) return Status::InvalidArgument("the chat template is not UTF-8");
  const std::string text = NormalizedLines(source);
  Lexer lexer(text);
  lexer.Run();
  if (!lexer.error().empty()) {
    return Status::InvalidArgument(
        fmt::format("chat template, line {}: {}", lexer.line(), lexer.error()));
  }
  return lexer.TakeTokens();
}

}  // namespace octavo::jinja
